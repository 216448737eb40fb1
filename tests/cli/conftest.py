"""What the tests of the command qkv share: running it, a toy BERT, and the same BERT in plain numpy.

The command is $QKV_BINARY, else $QKV, else build/release/qkv.
"""

import dataclasses
import fcntl
import json
import math
import os
import pathlib
import struct
import subprocess
import termios

import numpy as np
import pytest
import safetensors.numpy
import tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
VOCAB = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the animal did ##n ' t cross street because it was too tired wide . , play ##ing "
    "now un ##believ ##able \u65e5 \u672c x"
).split()
EMBED_DIM, NUM_HEADS, NUM_LAYERS, FFN_DIM, MAX_POSITIONS, MAX_SENTENCE = 16, 2, 3, 24, 32, 10


BINARY = os.environ.get("QKV_BINARY") or os.environ.get("QKV") or str(ROOT / "build/release/qkv")


@dataclasses.dataclass
class Result:
    """What a run of the command left behind."""

    code: int
    out: str
    err: str

    def json(self):
        assert self.code == 0 and self.err == "", self
        return json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))

    def fails(self, code, *needles):
        """Checks an error: exactly one line on stderr, nothing on stdout, the exit code, and what the line names."""
        assert self.code == code, self
        assert self.out == "", self
        assert self.err.startswith("qkv: ") and self.err.count("\n") == 1 and self.err.endswith("\n"), self
        assert all(character.isprintable() for character in self.err[:-1]), self
        for needle in needles:
            assert needle in self.err, self


@pytest.fixture(scope="session")
def binary():
    return BINARY


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """Variables that do not depend on who runs the tests: no colours asked for, no model fetched, UTF-8."""
    empty = tmp_path_factory.mktemp("empty_cache")
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR", "QKV_TARGET")}
    return kept | {"LC_ALL": "C.UTF-8", "QKV_CACHE": str(empty), "TERM": "xterm-256color"}


@pytest.fixture(scope="session")
def qkv(environment):
    """Runs the command: qkv("look", "text", stdin=b"...", env={...}); stdin is empty unless given."""

    def run(*arguments, stdin=b"", env=None, **options):
        options.setdefault("stdout", subprocess.PIPE)
        done = subprocess.run(
            [BINARY, *map(str, arguments)],
            input=stdin,
            stderr=subprocess.PIPE,
            env=environment | (env or {}),
            timeout=120,
            check=False,
            **options,
        )
        return Result(done.returncode, (done.stdout or b"").decode(), done.stderr.decode())

    return run


@pytest.fixture(scope="session")
def in_terminal(environment, new_terminal):
    """Runs the command in a terminal of its own with so many columns; stdout and stderr both go there."""

    def run(columns, *arguments, env=None):
        ours, theirs = new_terminal()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        process = subprocess.Popen(
            [BINARY, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs, env=environment | (env or {})
        )
        os.close(theirs)
        screen = b""
        while True:
            try:
                block = os.read(ours, 1 << 16)
            except OSError:  # nobody has the other end any more
                block = b""
            if not block:
                break
            screen += block
        os.close(ours)
        return Result(process.wait(timeout=120), screen.decode().replace("\r\n", "\n"), "")

    return run


@pytest.fixture
def real_model():
    """The folder of the default model, which `make model` fetches."""
    cache = os.environ.get("QKV_CACHE")
    if not cache:
        cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "qkv")
    folder = pathlib.Path(cache, "models", "all-MiniLM-L6-v2")
    assert (folder / "model.safetensors").is_file(), f"no model in {folder}: run `make model`"
    return folder


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


class ToyBert:
    """A BERT with random weights in a Hugging Face folder, and what it computes, in float64."""

    def __init__(self, folder):
        self.folder = folder
        self.tokenizer = tokenizers.BertWordPieceTokenizer({word: i for i, word in enumerate(VOCAB)})
        random = np.random.default_rng(7)
        self.tensors = {}

        def add(name, *shape, scale=0.4, offset=0.0):
            self.tensors[name] = (offset + scale * random.standard_normal(shape)).astype(np.float32)

        for name, rows in (("word", len(VOCAB)), ("position", MAX_POSITIONS), ("token_type", 2)):
            add(f"embeddings.{name}_embeddings.weight", rows, EMBED_DIM, scale=1.0)
        norms = ["embeddings.LayerNorm"]
        for layer in range(NUM_LAYERS):
            base = f"encoder.layer.{layer}"
            for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
                add(f"{base}.{name}.weight", EMBED_DIM, EMBED_DIM)
                add(f"{base}.{name}.bias", EMBED_DIM)
            add(f"{base}.intermediate.dense.weight", FFN_DIM, EMBED_DIM)
            add(f"{base}.intermediate.dense.bias", FFN_DIM)
            add(f"{base}.output.dense.weight", EMBED_DIM, FFN_DIM)
            add(f"{base}.output.dense.bias", EMBED_DIM)
            norms += [f"{base}.attention.output.LayerNorm", f"{base}.output.LayerNorm"]
        for norm in norms:
            add(f"{norm}.weight", EMBED_DIM, scale=0.1, offset=1.0)
            add(f"{norm}.bias", EMBED_DIM, scale=0.1)

    def write(self):
        config = {
            "model_type": "bert",
            "vocab_size": len(VOCAB),
            "hidden_size": EMBED_DIM,
            "num_hidden_layers": NUM_LAYERS,
            "num_attention_heads": NUM_HEADS,
            "intermediate_size": FFN_DIM,
            "max_position_embeddings": MAX_POSITIONS,
            "type_vocab_size": 2,
            "layer_norm_eps": 1e-12,
            "hidden_act": "gelu",
        }
        pooling = {"word_embedding_dimension": EMBED_DIM, "pooling_mode_mean_tokens": True}
        modules = [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")])
        ]
        files = {
            "config.json": config,
            "modules.json": modules,
            "sentence_bert_config.json": {"max_seq_length": MAX_SENTENCE, "do_lower_case": False},
            "1_Pooling/config.json": pooling,
        }
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content), encoding="utf-8")
        self.tokenizer.save(str(self.folder / "tokenizer.json"))
        safetensors.numpy.save_file(self.tensors, self.folder / "model.safetensors")
        return self

    def encode(self, text):
        return self.tokenizer.encode(text)

    def _linear(self, name, x):
        return x @ self.tensors[f"{name}.weight"].T.astype(np.float64) + self.tensors[f"{name}.bias"]

    def _norm(self, name, x):
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-12)
        return x * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def run(self, ids):
        """The last hidden states [len, embed_dim] and the weights [layer, head, query, key]."""
        table = {name: self.tensors[f"embeddings.{name}_embeddings.weight"].astype(np.float64) for name in
                 ("word", "position", "token_type")}
        x = self._norm("embeddings.LayerNorm", table["word"][ids] + table["position"][: len(ids)] + table["token_type"][0])
        weights = []
        for layer in range(NUM_LAYERS):
            base = f"encoder.layer.{layer}"
            q, k, v = (
                self._linear(f"{base}.attention.self.{name}", x).reshape(len(ids), NUM_HEADS, -1).swapaxes(0, 1)
                for name in ("query", "key", "value")
            )
            weights.append(softmax(q @ k.swapaxes(1, 2) / math.sqrt(EMBED_DIM // NUM_HEADS)))
            mixed = (weights[-1] @ v).swapaxes(0, 1).reshape(len(ids), EMBED_DIM)
            attended = self._linear(f"{base}.attention.output.dense", mixed)
            x = self._norm(f"{base}.attention.output.LayerNorm", x + attended)
            inner = gelu(self._linear(f"{base}.intermediate.dense", x))
            x = self._norm(f"{base}.output.LayerNorm", x + self._linear(f"{base}.output.dense", inner))
        return x, np.array(weights)

    def weights(self, text):
        return self.run(self.encode(text).ids)[1]

    def embed(self, text):
        ids = self.encode(text).ids
        if len(ids) > MAX_SENTENCE:
            ids = ids[: MAX_SENTENCE - 1] + ids[-1:]
        mean = self.run(ids)[0].mean(axis=0)
        return mean / np.linalg.norm(mean)


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    return ToyBert(tmp_path_factory.mktemp("toy_bert")).write()
