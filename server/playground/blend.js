// Rows of voices with weights. Only the ratio of the weights matters, so the page shows percentages.

import { $, choices } from "./page.js";

let names = [];

/** Show rows for the first two of `voices`. `changed` is called after every change. */
export function setUp(voices, changed) {
  names = voices;
  $("shares").replaceChildren();
  for (const name of names.slice(0, 2)) add(name, changed);
  $("add-share").onclick = () => add(names[rows().length % names.length], changed).focus();
}

/** Add a voice to the choices of every row. */
export function offer(name) {
  names.push(name);
  for (const row of rows()) selectOf(row).append(...choices([name]));
}

/** The field `voices` of a request. */
export const shares = () => rows().map((row) => ({ voice: selectOf(row).value, weight: weightOf(row) }));

const rows = () => [...$("shares").children];
const selectOf = (row) => row.querySelector("select");
const sliderOf = (row) => row.querySelector("[type=range]");
const weightOf = (row) => Number(sliderOf(row).value) / 100;

function add(name, changed) {
  const row = $("share").content.firstElementChild.cloneNode(true);
  selectOf(row).replaceChildren(...choices(names));
  selectOf(row).value = name;
  row.oninput = () => showRatio(changed);
  row.querySelector("button").onclick = () => {
    row.remove();
    $("add-share").focus();
    showRatio(changed);
  };
  $("shares").append(row);
  showRatio(changed);
  return selectOf(row);
}

function showRatio(changed) {
  const total = rows().reduce((sum, row) => sum + weightOf(row), 0) || 1;
  let sum = 0;
  for (const row of rows()) {
    const before = Math.round((100 * sum) / total);
    sum += weightOf(row);
    const percent = `${Math.round((100 * sum) / total) - before} %`;
    row.querySelector(".number").textContent = percent;
    sliderOf(row).setAttribute("aria-label", `Weight of ${selectOf(row).value}`);
    sliderOf(row).setAttribute("aria-valuetext", percent);
    row.querySelector("button").hidden = rows().length < 2;
  }
  changed();
}
