// Records the microphone in the browser's own format. The server accepts the formats of all browsers.

/** Start recording. Resolves to a function that stops it and returns the recording as a File. */
export async function record() {
  if (!navigator.mediaDevices) throw new Error("Browsers record only on pages that are loaded over https or from this machine.");
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } }).catch((error) => {
    throw new Error(error.name === "NotFoundError" ? "There is no microphone." : "The browser denied access to the microphone.");
  });
  const recorder = new MediaRecorder(stream);
  const pieces = [];
  recorder.addEventListener("dataavailable", (event) => pieces.push(event.data));
  const stopped = new Promise((resolve) => recorder.addEventListener("stop", resolve, { once: true }));
  recorder.start();
  return async () => {
    if (recorder.state !== "inactive") recorder.stop();
    await stopped;
    for (const track of stream.getTracks()) track.stop();
    const [type, suffix] = /^\w+\/(\w+)/.exec(recorder.mimeType) ?? ["audio/webm", "webm"];
    return new File(pieces, `recording.${suffix}`, { type });
  };
}

/** Return the part of the file's data URL before the data. */
export const dataUrlHead = (file) => `data:${file.type || "application/octet-stream"};base64,`;

/** Return the file as a data URL. */
export function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(dataUrlHead(file) + reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error("The file cannot be read."));
    reader.readAsDataURL(file);
  });
}
