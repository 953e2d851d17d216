// Converts the form to the fields of a speech request.

/** Return the seed in the form, or a random one, so that the curl command gives the same audio. */
export const seedOf = (value) => (value === "" ? crypto.getRandomValues(new Uint32Array(1))[0] : Number(value));

/** Return the fields of a request, without the data of a recording. Fields with default values are left out. */
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
