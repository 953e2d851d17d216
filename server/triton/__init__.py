"""gRPC for clients of Triton Inference Server: the KServe v2 protocol, with Triton's ``ModelStreamInfer``.

Needs ``tritonclient[grpc]``, which has the published protocol definition as Python modules.
"""
