// The three ways to say whose voice it is: by name, by a recording, or between several.

import * as blend from "./blend.js";
import * as clone from "./clone.js";
import { $, choices } from "./page.js";

const KINDS = ["listed", "clone", "blend"];
const radio = (kind) => document.querySelector(`[name=kind][value=${kind}]`);
const kind = () => document.querySelector("[name=kind]:checked").value;

/** Offer `voices` as far as `model` can speak with them. `changed` hears of every choice, `failed` of Errors. */
export function offer(voices, model, { changed, failed }) {
  const names = voices.filter((voice) => voice.compatible !== false).map((voice) => voice.id);
  const clones = model.task_types.includes("Base");
  $("voice").replaceChildren(...choices(names));
  radio("listed").disabled = !names.length;
  radio("clone").disabled = !clones;
  radio("blend").disabled = !clones || !names.length;
  if (radio(kind()).disabled && clones) radio("clone").checked = true;
  blend.offer(names, changed);
  clone.offer(model, { changed, failed });
  $("kinds").onchange = () => show(changed);
  $("kinds").hidden = !clones && !names.length;
  show(changed);
}

/** The fields of a request that say whose voice, without a recording's data: see `reference`. */
export function chosen() {
  if (kind() === "blend") return { voices: blend.shares() };
  if (kind() === "clone") return clone.transcript();
  return $("voice").value ? { voice: $("voice").value } : {};
}

/** The name and type of the file that is cloned, if one is. */
export const recording = () => (kind() === "clone" ? clone.file() : null);

/** The recording as a request carries it, if one is cloned. Throws where there is none. */
export const reference = async () => (kind() === "clone" ? clone.reference() : {});

function show(changed) {
  for (const each of KINDS) $(`panel-${each}`).hidden = each !== kind() || $("kinds").hidden;
  changed();
}
