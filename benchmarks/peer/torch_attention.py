"""Attention alone in PyTorch, as the peer of gpu_kernels: one JSON object a line, microseconds of a call on a GPU.

    python3 torch_attention.py --dtype bf16
Causal, 16 sequences of 512, 12 heads of 64 with 3 key/value heads; the shapes and order in memory are those of gpu_kernels.cpp.
"""
import argparse
import json
import statistics

import torch
import torch.nn.functional as F

B, S, H, K, D = 16, 512, 12, 3, 64
REPEATS, ROUNDS = 20, 7


def microseconds(work):
    for _ in range(3):
        work()
    rounds = []
    for _ in range(ROUNDS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(REPEATS):
            work()
        end.record()
        end.synchronize()
        rounds.append(1e3 * begin.elapsed_time(end) / REPEATS)
    return statistics.median(rounds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[parser.parse_args().dtype]
    torch.manual_seed(1)
    q, k, v = (torch.randn(B, S, heads, D, device="cuda", dtype=dtype).transpose(1, 2).requires_grad_() for heads in (H, K, K))
    dy = torch.randn(B, S, H, D, device="cuda", dtype=dtype).transpose(1, 2)

    def forward():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    y = forward()
    print(json.dumps({"name": "attention", "us": microseconds(forward)}))
    print(json.dumps({"name": "attention_backward",
                      "us": microseconds(lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True))}))


if __name__ == "__main__":
    main()
