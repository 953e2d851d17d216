// Small things that every part of the page needs.

/** The element of that id. */
export const $ = (id) => document.getElementById(id);

/** Options of a select, each with its name as its value. */
export const choices = (names) => names.map((name) => new Option(name, name));

/** Seconds as people read them. */
export const seconds = (value) => `${value.toFixed(value < 9.95 ? 2 : 1)} s`;
