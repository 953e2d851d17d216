// What went wrong, said where it is seen and heard, and at the field it is about.

import { $ } from "./page.js";

/** Show an Error; of a Refusal also what the server tells of it. */
export function showFailure(error) {
  const { status, code, param, id, retryAfter } = error;
  const message = document.createElement("p");
  message.textContent = retryAfter ? `${error.message.replace(/\.?$/, ".")} Ask again in ${retryAfter} s.` : error.message;
  const facts = document.createElement("p");
  facts.className = "facts";
  facts.textContent = told({ status, code, field: param, request: id });
  const box = document.createElement("div");
  box.className = "failure";
  box.append(message, ...(facts.textContent ? [facts] : []));
  $("failure").replaceChildren(box);
  $("failure").scrollIntoView({ block: "nearest" });
  mark(param);
}

/** Nothing is wrong any more. */
export function clearFailure() {
  $("failure").replaceChildren();
  for (const field of document.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-errormessage");
  }
}

const told = (facts) => Object.entries(facts).filter(([, fact]) => fact).map((pair) => pair.join(" ")).join(" · ");

function mark(param) {
  const field = param && $("form").elements.namedItem(param);
  if (!(field instanceof HTMLElement)) return;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-errormessage", "failure");
  field.closest("details")?.setAttribute("open", "");
}
