// From the form to the fields of a speech request.

/** The seed that was asked for, or a new one: so that the curl line says the same again. */
export const seedOf = (asked) => (asked === "" ? crypto.getRandomValues(new Uint32Array(1))[0] : Number(asked));

/** The fields of a request, but for a recording's data. What the server does by itself is left out. */
export function fields(form, voice, seed) {
  const body = { input: form.input.value, ...voice, response_format: "pcm" };
  if (!["", "auto"].includes(form.language.value)) body.language = form.language.value;
  if (Number(form.speed.value) !== 1) body.speed = Number(form.speed.value);
  if (form.split.checked) body.split = "sentence";
  if (form.instructions.value.trim()) body.instructions = form.instructions.value;
  if (form.seed.value !== "") body.seed = Number(form.seed.value);
  else if (seed !== null) body.seed = seed;
  return body;
}
