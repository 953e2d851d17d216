// Helpers for all modules of the page.

/** Return the element with this id. */
export const $ = (id) => document.getElementById(id);

/** Return the options of a select; the value of each is its name. */
export const choices = (names) => names.map((name) => new Option(name, name));

/** Return a duration in seconds as text. */
export const seconds = (value) => `${value.toFixed(value < 9.95 ? 2 : 1)} s`;
