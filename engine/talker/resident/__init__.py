"""The part of a step that stays on the device: what frames are made of, and what is kept of each utterance for them.

No shape and no branch depends on a value that is on the device, so a frame can be captured in a graph, and nothing
here waits for the device. Who runs the decoder layers in between is not its concern; today that is vLLM.
"""
