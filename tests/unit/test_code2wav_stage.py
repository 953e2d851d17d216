"""Code2Wav's stage: failures fail only the streams they affect, and batches in flight keep their samples."""

import queue
import threading

import numpy as np
import pytest

from engine.code2wav.cpu import CompletedBatch
from engine.code2wav.prefix_cache import PrefixCache
from engine.code2wav.stage import Code2WavStage
from engine.config import Code2WavConfig
from engine.protocol.messages import StreamHeader
from engine.protocol.request import AudioChunk, Completion, FinishReason
from engine.protocol.samples import to_int16
from engine.transfer import Kind, Wakeup, pair
from tests.support.record_collector import TIMEOUT, RecordCollector


class ScriptedDecoder:
    """A decoder with two rows that cannot begin with a context, fails for code 13, and produces NaN for code 14."""

    padded = False

    def __init__(self):
        self.prefix_cache = PrefixCache()
        self.used = set()

    @property
    def free_rows(self):
        return 2 - len(self.used)

    def begin(self, context):
        if context is not None:
            raise RuntimeError("no memory for the reference")
        row = min({0, 1} - self.used)
        self.used.add(row)
        return row

    def end(self, row):
        self.used.remove(row)

    def launch(self, rows, codes):
        if (codes == 13).any():
            raise RuntimeError("an unlucky code")
        samples = np.zeros((len(rows), codes.shape[1] * 1920), np.float32)
        samples[:, 7] = np.where((codes == 14).any((1, 2)), np.nan, 0)
        return CompletedBatch(to_int16(samples))


class AsynchronousDecoder(ScriptedDecoder):
    """As a decoder on a GPU: batches are done when ``finish`` is set. Then those with code 15 fail."""

    padded = True

    def __init__(self):
        super().__init__()
        self.finish = threading.Event()
        self.proceed = threading.Event()
        self.proceed.set()
        self.launched = queue.Queue()

    def launch(self, rows, codes):
        self.launched.put(rows)
        assert self.proceed.wait(TIMEOUT)
        return UnfinishedBatch(super().launch(rows, codes).collect(), (codes == 15).any(), self.finish)


class UnfinishedBatch:
    def __init__(self, samples, fails, finish, done=False):
        self.samples, self.fails, self.finish, self.done = samples, fails, finish, done

    def collect(self):
        assert self.finish.wait(TIMEOUT)
        if self.fails:
            raise RuntimeError("the graph failed")
        return self.samples


@pytest.fixture
def code2wav_stage(request):
    """A stage with a scripted decoder: (decoder, talker end of its frames, collector of its audio)."""
    talker, own_frames = pair(window=8)
    own_audio, client = pair(window=8)
    wakeup, decoder = Wakeup(), getattr(request, "param", ScriptedDecoder)()
    frames, audio = own_frames.attach(wakeup), own_audio.attach(wakeup)
    config = getattr(decoder, "config", Code2WavConfig())
    stage = Code2WavStage(decoder, config, frames=frames, audio=audio, wakeup=wakeup)
    thread = threading.Thread(target=stage.run)
    thread.start()
    with talker.attach(Wakeup()) as frame_sender:
        collector = RecordCollector(client)
        collector.stage = thread
        yield decoder, frame_sender, collector
        collector.end.close()
    thread.join(TIMEOUT)
    assert not thread.is_alive()
    frames.close()
    audio.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_failure_is_reported_although_freeing_the_row_fails(code2wav_stage, monkeypatch):
    decoder, frame_sender, audio = code2wav_stage

    def lost(row):
        raise RuntimeError("the GPU is gone")

    monkeypatch.setattr(decoder, "end", lost)
    send_frames(frame_sender, 1, code=13)
    failure = audio.terminals(1)[1]
    assert failure.kind is Kind.FAIL and b"an unlucky code" in failure.payload


def send_frames(frame_sender, stream, code=0, context=None):
    frame_sender.open(stream, StreamHeader(True, context).to_bytes())
    frame_sender.send_rows([stream], np.full(16, code, "<i2").tobytes())
    frame_sender.end(stream, Completion(FinishReason.STOP, 1, 1).to_bytes())


@pytest.mark.parametrize(
    "fault",
    [{"code": 13}, {"code": 14}, {"context": np.zeros((3, 16), np.int16)}],
    ids=["decode", "NaN", "begin"],
)
def test_a_stream_that_cannot_be_decoded_fails_and_frees_its_row(code2wav_stage, fault):
    decoder, frame_sender, audio = code2wav_stage
    send_frames(frame_sender, 1, **fault)
    assert audio.terminals(1)[1].kind is Kind.FAIL
    assert not [record for record in audio.records if record.kind is Kind.DATA]
    for stream in (2, 3, 4):
        send_frames(frame_sender, stream)
    ended = audio.terminals(4)
    assert all(ended[stream].kind is Kind.END for stream in (2, 3, 4))
    assert not decoder.used


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_three_failed_batches_in_a_row_end_code2wav(code2wav_stage):
    _, frame_sender, audio = code2wav_stage
    for stream, code in enumerate((13, 13, 0, 13, 13), 1):
        send_frames(frame_sender, stream, code=code)
        audio.terminals(stream)
    assert audio.stage.is_alive()
    send_frames(frame_sender, 6, code=13)
    assert audio.terminals(6)[6].kind is Kind.FAIL
    audio.stage.join(TIMEOUT)
    assert not audio.stage.is_alive()


@pytest.mark.parametrize("fault", [{"code": 14}, {"context": np.zeros((3, 16), np.int16)}], ids=["NaN", "context"])
def test_failures_of_single_streams_do_not_end_code2wav(code2wav_stage, fault):
    _, frame_sender, audio = code2wav_stage
    for stream in range(1, 6):
        send_frames(frame_sender, stream, **fault)
        assert audio.terminals(stream)[stream].kind is Kind.FAIL
    send_frames(frame_sender, 6)
    assert audio.terminals(6)[6].kind is Kind.END


on_a_gpu = pytest.mark.parametrize("code2wav_stage", [AsynchronousDecoder], indirect=True, ids=["on a GPU"])


@on_a_gpu
def test_a_second_batch_is_launched_while_the_first_is_decoded(code2wav_stage):
    decoder, frame_sender, audio = code2wav_stage
    decoder.proceed.clear()
    send_frames(frame_sender, 1)
    decoder.launched.get(timeout=TIMEOUT)
    send_frames(frame_sender, 2)
    decoder.proceed.set()
    decoder.launched.get(timeout=TIMEOUT)
    assert not [record for record in audio.end.receive() if record.kind is Kind.DATA]
    decoder.finish.set()
    assert {record.kind for record in audio.terminals(2).values()} == {Kind.END}
    assert [record.stream for record in audio.records if record.kind is Kind.DATA] == [1, 2]


@on_a_gpu
def test_a_batch_that_fails_after_its_client_has_left_fails_no_other_stream(code2wav_stage):
    decoder, frame_sender, audio = code2wav_stage
    decoder.proceed.clear()
    frame_sender.open(1, StreamHeader(True).to_bytes())
    frame_sender.send_rows([1], np.full(16, 15, "<i2").tobytes())
    decoder.launched.get(timeout=TIMEOUT)
    audio.records += audio.end.receive()
    audio.end.cancel(1)
    frame_sender.end(1, Completion(FinishReason.CANCELLED, 1, 1).to_bytes())
    send_frames(frame_sender, 2)
    decoder.proceed.set()
    decoder.launched.get(timeout=TIMEOUT)
    decoder.finish.set()
    assert {stream: record.kind for stream, record in audio.terminals(2).items()} == {1: Kind.END, 2: Kind.END}
    assert not decoder.used


class BufferedDecoder(AsynchronousDecoder):
    """As a decoder on a GPU with two buffers for samples. All batches but the first are done when they are launched."""

    config = Code2WavConfig(max_batch_frames=1)

    def __init__(self):
        super().__init__()
        self.buffers = [np.zeros((1, 1920), np.int16) for _ in range(2)]
        self.finish.set()
        self.batches = 0

    @property
    def free_rows(self):
        return 3 - len(self.used)

    def begin(self, context):
        row = min({0, 1, 2} - self.used)
        self.used.add(row)
        return row

    def launch(self, rows, codes):
        self.launched.put(rows)
        assert self.proceed.wait(TIMEOUT)
        buffer = self.buffers[self.batches % 2]
        self.batches += 1
        buffer[:] = codes[0, 0, 0]
        return UnfinishedBatch(buffer, False, self.finish, done=self.batches > 1)


@pytest.mark.parametrize("code2wav_stage", [BufferedDecoder], indirect=True, ids=["two buffers"])
def test_the_samples_of_a_batch_in_flight_are_not_overwritten(code2wav_stage):
    decoder, frame_sender, audio = code2wav_stage
    decoder.proceed.clear()
    send_frames(frame_sender, 1, code=100)
    decoder.launched.get(timeout=TIMEOUT)
    send_frames(frame_sender, 2, code=200)
    send_frames(frame_sender, 3, code=300)
    decoder.proceed.set()
    audio.terminals(3)
    chunks = {each.stream: each for each in audio.records if each.kind is Kind.DATA}
    samples = {stream: AudioChunk.from_bytes(each.payload, each.units).samples for stream, each in chunks.items()}
    assert {stream: int(each[0]) for stream, each in samples.items()} == {1: 100, 2: 200, 3: 300}
