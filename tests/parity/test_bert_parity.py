"""qkv's BERT against transformers with the same weights.

Rule: no value farther from transformers in float64 than twice transformers' own float32 error + 1e-6, where error is the
largest difference in one sentence and one hidden state, one head's weights, or one embedding.
"""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
QKV = os.environ["QKV_BINARY"]
DRIVER = pathlib.Path(QKV).parent / "tests" / "run_bert"
SLACK = 1e-6
SENTENCES = json.loads((pathlib.Path(__file__).parent / "sentences.json").read_text())


@pytest.fixture(scope="module")
def folder():
    """The default model's folder; `make model` has fetched it."""
    return subprocess.run([ROOT / "tools" / "fetch_model.sh"], check=True, capture_output=True, text=True).stdout.strip()


class Reference:
    """What transformers computes for every sentence, in one precision."""

    def __init__(self, folder, dtype):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager", dtype=dtype).eval()
        self.tokens, self.hidden_states, self.attn_weights, self.vectors = [], [], [], []
        for sentence in SENTENCES:
            tokens = tokenizer(sentence, truncation=False, padding=False)["input_ids"]
            output = self.run(model, tokens)
            self.tokens.append(tokens)
            self.hidden_states.append(torch.cat(output.hidden_states).numpy())
            self.attn_weights.append(torch.cat(output.attentions).numpy())
            cut = tokens if len(tokens) <= 256 else tokens[:255] + tokens[-1:]  # its max_seq_length
            mean = self.run(model, cut).last_hidden_state[0].mean(0)
            self.vectors.append(torch.nn.functional.normalize(mean, dim=0).numpy())

    @staticmethod
    def run(model, tokens):
        with torch.no_grad():
            return model(torch.tensor([tokens]), output_hidden_states=True, output_attentions=True)


@pytest.fixture(scope="module")
def exact(folder):
    """transformers in float64: the truth."""
    return Reference(folder, torch.float64)


@pytest.fixture(scope="module")
def plain(folder):
    """transformers in float32: what its own rounding costs."""
    return Reference(folder, torch.float32)


@pytest.fixture(scope="module")
def results(folder, tmp_path_factory):
    """The folder of what run_bert writes."""
    out = tmp_path_factory.mktemp("run_bert")
    text = "".join(sentence + "\n" for sentence in SENTENCES)
    subprocess.run([DRIVER, folder, out], input=text.encode(), check=True)
    return out


def error(got, expected):
    """The largest difference."""
    assert got.shape == expected.shape
    return np.abs(got.astype(np.float64) - expected).max()


def assert_as_close(got, plain, exact, where):
    """Fails unless `got` keeps the rule."""
    limit = 2 * error(plain, exact) + SLACK
    assert error(got, exact) <= limit, f"{where}: error {error(got, exact):.3g}, limit {limit:.3g}"


numbered = pytest.mark.parametrize("number", range(len(SENTENCES)))


def test_there_are_enough_sentences(exact):
    """Among them an empty one and one as long as the model can read."""
    assert len(SENTENCES) >= 30
    assert min(len(tokens) for tokens in exact.tokens) == 2
    assert max(len(tokens) for tokens in exact.tokens) == 512


@numbered
def test_tokens_are_those_of_transformers(number, results, exact):
    """Before anything else can be compared."""
    assert np.load(results / f"{number}.tokens.npy").astype(int).tolist() == exact.tokens[number]


@numbered
def test_every_hidden_state_is_as_close(number, results, exact, plain):
    """The embeddings and what each block makes of them."""
    got = np.load(results / f"{number}.hidden_states.npy")
    assert len(got) == len(exact.hidden_states[number])
    for layer, states in enumerate(zip(got, plain.hidden_states[number], exact.hidden_states[number])):
        assert_as_close(*states, f"hidden state {layer}")


@numbered
def test_every_heads_weights_are_as_close(number, results, exact, plain):
    """Each head by itself, so that none hides behind another's error."""
    got = np.load(results / f"{number}.attn_weights.npy")
    for layer in range(len(exact.attn_weights[number])):
        for head in range(len(exact.attn_weights[number][layer])):
            maps = (weights[layer][head] for weights in (got, plain.attn_weights[number], exact.attn_weights[number]))
            assert_as_close(*maps, f"layer {layer} head {head}")


@numbered
def test_embeddings_are_as_close(number, results, exact, plain):
    """Mean over the tokens, normalised, cut at 256 tokens."""
    got = np.load(results / "vectors.npy")[number]
    assert_as_close(got, plain.vectors[number], exact.vectors[number], "embedding")


def test_the_command_prints_the_same_embeddings(results, folder):
    """`qkv embed --json`, and the number of the one line that it cuts."""
    text = "".join(sentence + "\n" for sentence in SENTENCES)
    printed = subprocess.run([QKV, "embed", "-m", folder, "--json"], input=text.encode(), check=True, capture_output=True)
    answer = json.loads(printed.stdout)
    np.testing.assert_allclose(np.array(answer["vectors"]), np.load(results / "vectors.npy"), rtol=0, atol=1e-6)
    assert answer["truncated"] == [len(SENTENCES)]


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (3, 1), (5, 11)])
def test_the_command_prints_the_same_weights(layer, head, results, folder):
    """`qkv look --json` of one head."""
    command = [QKV, "look", SENTENCES[0], "-m", folder, "--layer", str(layer), "--head", str(head), "--json"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    expected = np.load(results / "0.attn_weights.npy")[layer][head]
    assert (answer["layer"], answer["head"], len(answer["tokens"])) == (layer, head, len(expected))
    np.testing.assert_allclose(np.array(answer["weights"]), expected, rtol=0, atol=1e-6)
