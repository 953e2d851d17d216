// The microphone, as a file of whatever format this browser records: the server reads them all.

/** Listen to the microphone. Resolves to a function that ends it and gives the recording as a File. */
export async function record() {
  if (!navigator.mediaDevices) throw new Error("Recording needs a page that came over https, or from this machine.");
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } }).catch((error) => {
    throw new Error(error.name === "NotFoundError" ? "There is no microphone." : "The browser did not allow the microphone.");
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

/** How a data URL of the file begins. */
export const dataUrlHead = (file) => `data:${file.type || "application/octet-stream"};base64,`;

/** The file as a data URL. */
export function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(dataUrlHead(file) + reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error("The file cannot be read."));
    reader.readAsDataURL(file);
  });
}
