// Runs in a page before its own code: records the samples passed to Web Audio and the playback level.
window.heard = { samples: [], loudest: 0, now: 0, taps: [] };

const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (...when) {
  heard.samples.push(...this.buffer.getChannelData(0));
  return start.apply(this, when);
};

const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (target, ...ports) {
  if (target instanceof AudioDestinationNode) {
    const tap = new AnalyserNode(this.context, { fftSize: 2048 });
    connect.call(this, tap);
    heard.taps.push(tap);
  }
  return connect.call(this, target, ...ports);
};

const block = new Float32Array(2048);
setInterval(() => {
  heard.now = 0;
  for (const tap of heard.taps) {
    if (tap.context.state !== "running") continue; // not playing
    tap.getFloatTimeDomainData(block);
    heard.now = Math.max(heard.now, ...block.map(Math.abs));
  }
  heard.loudest = Math.max(heard.loudest, heard.now);
}, 20);
