// Shows errors, also to screen readers, and marks the field that an error is about.

import { $ } from "./page.js";

/** Show an Error, and the server's details of a RequestError. */
export function showFailure(error) {
  const { status, code, param, id, retryAfter } = error;
  const message = document.createElement("p");
  message.textContent = retryAfter ? `${error.message.replace(/\.?$/, ".")} Try again in ${retryAfter} s.` : error.message;
  const facts = document.createElement("p");
  facts.className = "facts";
  facts.textContent = joined({ status, code, field: param, request: id });
  const box = document.createElement("div");
  box.className = "failure";
  box.append(message, ...(facts.textContent ? [facts] : []));
  $("failure").replaceChildren(box);
  $("failure").scrollIntoView({ block: "nearest" });
  mark(param);
}

/** Remove the error. */
export function clearFailure() {
  $("failure").replaceChildren();
  for (const field of document.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-errormessage");
  }
}

const joined = (facts) => Object.entries(facts).filter(([, fact]) => fact).map((pair) => pair.join(" ")).join(" · ");

function mark(param) {
  const field = param && $("form").elements.namedItem(param);
  if (!(field instanceof HTMLElement)) return;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-errormessage", "failure");
  field.closest("details")?.setAttribute("open", "");
}
