// Runs in a page before its own code: records the samples passed to Web Audio and the playback level.
window.audioTap = { samples: [], peak: 0, level: 0, analysers: [] };

const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (...when) {
  audioTap.samples.push(...this.buffer.getChannelData(0));
  return start.apply(this, when);
};

const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (target, ...ports) {
  if (target instanceof AudioDestinationNode) {
    const analyser = new AnalyserNode(this.context, { fftSize: 2048 });
    connect.call(this, analyser);
    audioTap.analysers.push(analyser);
  }
  return connect.call(this, target, ...ports);
};

const block = new Float32Array(2048);
setInterval(() => {
  audioTap.level = 0;
  for (const analyser of audioTap.analysers) {
    if (analyser.context.state !== "running") continue; // not playing
    analyser.getFloatTimeDomainData(block);
    audioTap.level = Math.max(audioTap.level, ...block.map(Math.abs));
  }
  audioTap.peak = Math.max(audioTap.peak, audioTap.level);
}, 20);
