"""all-MiniLM-L6-v2 from text to vector: qkv beside transformers on PyTorch, both with tokenizing, pooling and normalising."""

import importlib
import itertools
import os

import torch
import torch.nn.functional as F

from rounds import Contestant, check_equal, compete, fma_rate

MAX_TOKENS = 512
# Words that are one token each.
WORDS = ("the", "animal", "did", "not", "cross", "street", "because", "it", "was", "too", "tired", "river", "house", "garden", "light",
         "music", "winter", "machine", "thinking", "paper", "green", "water", "mountain")


def make_texts(batch, num_tokens):
    """Texts of so many tokens, [CLS] and [SEP] counted."""
    return [" ".join(itertools.islice(itertools.cycle(WORDS[b:] + WORDS[:b]), num_tokens - 2)) for b in range(batch)]


class MiniLm:
    """The model of a folder, loaded once by each side."""

    def __init__(self, shim, folder):
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads are not counted among ours
        transformers = importlib.import_module("transformers")
        transformers.utils.logging.disable_progress_bar()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.model = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa", local_files_only=True)
        self.model.eval()
        self.shim = shim
        self.embed_dim = shim.lib.qkv_load_model(str(folder).encode())

    def flops(self, batch, num_tokens):
        """Of all products of matrices."""
        c = self.model.config
        weights = 4 * c.hidden_size**2 + 2 * c.hidden_size * c.intermediate_size
        return c.num_hidden_layers * batch * num_tokens * (2.0 * weights + 4.0 * num_tokens * c.hidden_size)

    def qkv(self, texts):
        out = torch.empty(len(texts), self.embed_dim)
        call = self.shim.embed(texts, out)
        return Contestant("qkv", call, lambda: (call(), out)[1])

    def transformers(self, texts):
        def call():
            tokens = self.tokenizer(texts, padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
            hidden = self.model(**tokens).last_hidden_state
            real = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            return F.normalize((hidden * real).sum(1) / real.sum(1), dim=1)

        return Contestant("transformers on torch sdpa", call, call)


def minilm_cell(bench, minilm, batch, num_tokens):
    texts = make_texts(batch, num_tokens)
    counted = {len(ids) for ids in minilm.tokenizer(texts)["input_ids"]}
    if counted != {num_tokens}:
        raise SystemExit(f"minilm: texts of {counted} tokens, expected {num_tokens}")
    ours, peers = minilm.qkv(texts), [minilm.transformers(texts)]
    check_equal(f"minilm {batch} x {num_tokens}", ours, peers, 1e-4)
    config = minilm.model.config
    facts = bench.facts(batch=batch, heads=config.num_attention_heads, q_len=num_tokens, kv_len=num_tokens,
                        head_dim=config.hidden_size // config.num_attention_heads)
    rates = [fma_rate(bench.shim, minilm.flops(batch, num_tokens))]
    results = compete(facts, ours, peers, rates, bench.repeat)
    return [result | {"tokens_per_second": batch * num_tokens / result["qkv_ms"] * 1e3} for result in results]
