// The three ways to select a voice: by name, a clone of a recording, or a blend of several voices.

import * as blend from "./blend.js";
import * as clone from "./clone.js";
import { $, choices } from "./page.js";

const KINDS = ["listed", "clone", "blend"];
const radio = (kind) => document.querySelector(`[name=kind][value=${kind}]`);
const kind = () => document.querySelector("[name=kind]:checked").value;

/**
 * Show the voices that `model` supports. `changed` is called after every change, `failed` with an Error, and `kept`
 * with the name of a clone that was stored.
 */
export function setUp(voices, model, { changed, failed, kept }) {
  const names = voices.filter((voice) => voice.compatible !== false).map((voice) => voice.id);
  const clones = model.task_types.includes("Base");
  $("voice").replaceChildren(...choices(names));
  radio("listed").disabled = !names.length;
  radio("clone").disabled = !clones;
  radio("blend").disabled = !clones || !names.length;
  if (radio(kind()).disabled && clones) radio("clone").checked = true;
  blend.setUp(names, changed);
  clone.setUp(model, {
    changed,
    failed,
    kept: ({ id }) => {
      offer(id);
      show(changed);
      kept(id);
    },
  });
  $("kinds").onchange = () => show(changed);
  $("kinds").hidden = !clones && !names.length;
  show(changed);
}

/** The fields of a request that select the voice, without the data of a recording: see `reference`. */
export function selected() {
  if (kind() === "blend") return { voices: blend.shares() };
  if (kind() === "clone") return clone.transcript();
  return $("voice").value ? { voice: $("voice").value } : {};
}

/** The name and type of the file to clone, or null. */
export const recording = () => (kind() === "clone" ? clone.file() : null);

/** The field `ref_audio` of a request, if a recording is cloned. Throws if there is none. */
export const reference = async () => (kind() === "clone" ? clone.reference() : {});

/** Select the stored voice `name`. */
function offer(name) {
  $("voice").append(...choices([name]));
  $("voice").value = name;
  blend.offer(name);
  for (const each of ["listed", "blend"]) radio(each).disabled = false;
  radio("listed").checked = true;
  radio("listed").focus();
}

function show(changed) {
  for (const each of KINDS) $(`panel-${each}`).hidden = each !== kind() || $("kinds").hidden;
  changed();
}
