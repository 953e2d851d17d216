"""Code2Wav decodes the first frame of a stream before its codes arrive on the link, and sends only what is right."""

import threading

import numpy as np
import pytest
import torch

from engine.code2wav.early_decoding import EarlyDecoding
from engine.code2wav.gpu import GraphedDecoder, captured_sizes
from engine.code2wav.stage import Code2WavStage
from engine.config import Code2WavConfig
from engine.device.first_frame import FirstFrame, FirstFrameSlot
from engine.device.streams import HostStream
from engine.models.code2wav_gpu import RowWeights
from engine.protocol.messages import StreamHeader
from engine.protocol.request import AudioChunk, Completion, FinishReason
from engine.protocol.samples import to_int16
from engine.transfer import Kind, Wakeup, pair
from tests.support.code2wav_decoders import (
    CPU,
    SMALL,
    decode_streams,
    random_codes,
    reference_decoder,
    tensors_of,
)
from tests.support.record_collector import TIMEOUT, RecordCollector
from tests.support.torch_codec_ops import TorchOps

ROWS, FRAMES = 3, 4
END = Completion(FinishReason.STOP, 1, FRAMES).to_bytes()


class Step:
    """The event of a talker step that has ended."""

    def query(self):
        return True

    def synchronize(self):
        pass


class Decoder(GraphedDecoder):
    """Records how many frames were decoded early, and how many not. faults: "launch" or "collect"."""

    def __init__(self):
        with torch.inference_mode():
            weights = RowWeights(tensors_of(SMALL), SMALL, device=CPU, dtype=torch.float32)
        sizes = captured_sizes(ROWS, max_chunk_frames=4, max_batch_frames=12)
        super().__init__(weights, TorchOps(), HostStream(), rows=ROWS, sizes=sizes)
        self.early, self.late, self.launched, self.fault = 0, 0, threading.Event(), ""

    def launch_first(self, row, frame):
        if self.fault == "launch":
            self.launched.set()
            raise RuntimeError("the graph cannot be launched")
        batch = super().launch_first(row, frame)
        if self.fault == "collect":
            batch.collect = self.fail
        self.early += 1
        self.launched.set()
        return batch

    def launch(self, rows, codes):
        self.late += codes.shape[0] * codes.shape[1]
        return super().launch(rows, codes)

    def fail(self):
        raise RuntimeError("the graph failed")


class CountingWakeup(Wakeup):
    """Counts how often the stage has waited."""

    waits = 0

    def wait_for(self, predicate, timeout=None, *, poll=0.0):
        self.waits += 1
        return super().wait_for(predicate, timeout, poll=poll)


class Pipeline:
    """Code2Wav's stage between the talker's end of the frames link and the client's end of the audio link."""

    def __init__(self, decoder):
        self.decoder, self.slot = decoder, FirstFrameSlot()
        talker, own_frames = pair(window=8)
        own_audio, client = pair(window=8)
        self.wakeup = wakeup = CountingWakeup()
        self._own = own_frames.attach(wakeup), own_audio.attach(wakeup)
        stage = Code2WavStage(
            decoder,
            Code2WavConfig(),
            frames=self._own[0],
            audio=self._own[1],
            wakeup=wakeup,
            early=EarlyDecoding(decoder, self.slot),
        )
        self._thread = threading.Thread(target=stage.run)
        self._thread.start()
        self.frames, self.audio = talker.attach(Wakeup()), RecordCollector(client)

    def begin(self, stream, codes, header=None):
        """Begin a stream whose step samples ``codes`` [16] on the device."""
        on_device = torch.from_numpy(np.stack([np.zeros_like(codes), codes]))
        self.slot.frame = FirstFrame(stream, on_device, 1, Step())
        self.frames.open(stream, (header or StreamHeader(True)).to_bytes())

    def send(self, stream, codes):
        for frame in codes:
            self.frames.send_rows([stream], frame.tobytes())
        self.frames.end(stream, END)

    def chunks(self, stream):
        """Wait until the stream has ended. Return its samples and codes."""
        assert self.end_of(stream).kind is Kind.END
        data = [each for each in self.audio.records if each.kind is Kind.DATA and each.stream == stream]
        chunks = [AudioChunk.from_bytes(each.payload, each.units) for each in data]
        return np.concatenate([each.samples for each in chunks]), np.concatenate([each.codes for each in chunks])

    def wait_for_chunk(self):
        """Wait until a chunk has arrived."""

        def arrived():
            self.audio.records += self.audio.end.receive()
            return any(each.kind is Kind.DATA for each in self.audio.records)

        assert self.audio.wakeup.wait_for(arrived, TIMEOUT)

    def end_of(self, stream):
        """Wait until the stream has ended. Return its END or FAIL record."""
        ended = {}
        while stream not in ended:
            ended = self.audio.terminals(len(ended) + 1)
        return ended[stream]

    def close(self):
        self.frames.close()
        self.audio.end.close()
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive()
        for end in self._own:
            end.close()


@pytest.fixture
def pipeline():
    pipeline = Pipeline(Decoder())
    yield pipeline
    pipeline.close()
    assert pipeline.decoder.free_rows == ROWS


@pytest.fixture(scope="module")
def speech():
    """Codes [2, FRAMES, 16], and their samples from the reference implementation."""
    codes = random_codes(SMALL, 2, FRAMES)
    return codes.astype("<i2"), to_int16(decode_streams(reference_decoder(SMALL, 2), codes))


def assert_spoken(chunks, codes, truth):
    samples, sent = chunks
    assert np.array_equal(sent, codes)
    assert np.abs(samples - truth.astype(int)).max() <= 1


def test_a_first_frame_is_decoded_before_its_codes_arrive(pipeline, speech):
    codes, truth = speech
    pipeline.begin(1, codes[0, 0])
    assert pipeline.decoder.launched.wait(TIMEOUT)
    pipeline.send(1, codes[0])
    assert_spoken(pipeline.chunks(1), codes[0], truth[0])
    assert (pipeline.decoder.early, pipeline.decoder.late) == (1, FRAMES - 1)


def test_a_frame_whose_codes_were_overwritten_is_decoded_again(pipeline, speech):
    codes, truth = speech
    pipeline.begin(1, codes[1, 0])
    assert pipeline.decoder.launched.wait(TIMEOUT)
    pipeline.send(1, codes[0])
    assert_spoken(pipeline.chunks(1), codes[0], truth[0])
    assert (pipeline.decoder.early, pipeline.decoder.late) == (1, FRAMES)


def test_streams_that_begin_while_a_first_frame_is_in_flight_are_spoken(pipeline, speech):
    codes, truth = speech
    pipeline.begin(1, codes[0, 0])
    assert pipeline.decoder.launched.wait(TIMEOUT)
    pipeline.begin(2, codes[1, 0])
    pipeline.frames.send_rows([2], codes[1, 0].tobytes())
    pipeline.send(1, codes[0])
    pipeline.send(2, codes[1, 1:])
    for stream in (1, 2):
        assert_spoken(pipeline.chunks(stream), codes[stream - 1], truth[stream - 1])


def test_code2wav_sleeps_while_a_first_frame_is_in_flight_and_other_streams_are_due(pipeline, speech):
    codes, truth = speech
    pipeline.frames.open(2, StreamHeader(True).to_bytes())
    pipeline.frames.send_rows([2], codes[1, 0].tobytes())
    pipeline.wait_for_chunk()
    pipeline.begin(1, codes[0, 0])
    assert pipeline.decoder.launched.wait(TIMEOUT)
    pipeline.send(2, codes[1, 1:])
    for probe in range(3, 13):
        pipeline.frames.open(probe, StreamHeader(False, probe={}).to_bytes())
        pipeline.frames.end(probe)
        pipeline.end_of(probe)
    assert pipeline.wakeup.waits < 100
    pipeline.send(1, codes[0])
    for stream in (1, 2):
        assert_spoken(pipeline.chunks(stream), codes[stream - 1], truth[stream - 1])


def test_a_stream_of_one_frame_ends_although_its_end_arrives_with_the_frame(pipeline, speech):
    codes, truth = speech
    pipeline.begin(1, codes[0, 0])
    assert pipeline.decoder.launched.wait(TIMEOUT)
    with pipeline.wakeup.lock:  # the stage receives both at once
        pipeline.send(1, codes[0, :1])
    assert_spoken(pipeline.chunks(1), codes[0, :1], truth[0, :1920])


def test_chunks_that_are_due_are_decoded_before_another_first_frame(pipeline, speech):
    codes, truth = speech
    pipeline.frames.open(2, StreamHeader(True).to_bytes())
    with pipeline.wakeup.lock:
        pipeline.frames.send_rows([2], codes[1, 0].tobytes())
        pipeline.begin(1, codes[0, 0])
    pipeline.wait_for_chunk()
    assert pipeline.decoder.launched.wait(TIMEOUT)
    pipeline.send(1, codes[0])
    pipeline.send(2, codes[1, 1:])
    for stream in (1, 2):
        assert_spoken(pipeline.chunks(stream), codes[stream - 1], truth[stream - 1])


@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.CANCELLED])
def test_a_stream_that_ends_without_a_frame_leaves_nothing(pipeline, speech, reason):
    codes, truth = speech
    pipeline.begin(1, codes[0, 0])
    assert pipeline.decoder.launched.wait(TIMEOUT)
    pipeline.frames.end(1, Completion(reason, 1, 0).to_bytes())
    assert pipeline.end_of(1).kind is Kind.END
    pipeline.begin(2, codes[1, 0])
    pipeline.send(2, codes[1])
    assert_spoken(pipeline.chunks(2), codes[1], truth[1])


def test_a_frame_that_cannot_be_launched_early_is_decoded_when_its_codes_arrive(pipeline, speech):
    codes, truth = speech
    pipeline.decoder.fault = "launch"
    pipeline.begin(1, codes[0, 0])
    assert pipeline.decoder.launched.wait(TIMEOUT)
    pipeline.send(1, codes[0])
    assert_spoken(pipeline.chunks(1), codes[0], truth[0])


def test_a_failure_of_the_decoder_fails_the_stream(pipeline, speech):
    codes, _ = speech
    pipeline.decoder.fault = "collect"
    pipeline.begin(1, codes[0, 0])
    assert pipeline.decoder.launched.wait(TIMEOUT)
    pipeline.send(1, codes[0])
    failure = pipeline.end_of(1)
    assert failure.kind is Kind.FAIL and b"the graph failed" in failure.payload


@pytest.mark.parametrize("context", [None, 2], ids=["not in real time", "after a context"])
def test_other_streams_are_decoded_when_their_codes_arrive(pipeline, speech, context):
    codes, truth = speech
    header = StreamHeader(False) if context is None else StreamHeader(True, codes[0, :context])
    pipeline.begin(1, codes[0, context or 0], header)
    pipeline.send(1, codes[0, context or 0 :])
    assert_spoken(pipeline.chunks(1), codes[0, context or 0 :], truth[0, 1920 * (context or 0) :])
    assert not pipeline.decoder.early
