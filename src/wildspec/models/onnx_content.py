"""An ONNX graph may say that its numbers lie in another file, any file of the machine. Such graphs are not opened here."""

from typing import Any

from wildspec.checks import require


def kept_outside(content: bytes, why: str) -> str:
    """The first tensor of a graph, at any depth, whose numbers lie in another file; empty where all are in this one."""
    onnx = require("onnx", "onnx", why)
    document = onnx.load_from_string(content)
    graphs = [document.graph]
    nodes = [node for function in document.functions for node in function.node]
    while graphs or nodes:
        tensors: list[Any] = []
        if graphs:
            graph = graphs.pop()
            tensors += graph.initializer
            tensors += [part for sparse in graph.sparse_initializer for part in (sparse.values, sparse.indices)]
            nodes += graph.node
        else:
            for attribute in nodes.pop().attribute:
                tensors += [attribute.t, *attribute.tensors]
                sparse_ones = [attribute.sparse_tensor, *attribute.sparse_tensors]
                tensors += [part for sparse in sparse_ones for part in (sparse.values, sparse.indices)]
                graphs += [attribute.g, *attribute.graphs]
        for tensor in tensors:
            if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
                return str(tensor.name) or "a tensor without a name"
    return ""
