"""A small transformer that predicts the next character, and the text it learns from."""

from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset


class Text(Dataset):
    """Windows of a text as character numbers: what is read, and the same one character on."""

    def __init__(self, path: Path, window: int) -> None:
        text = path.read_text()
        self.characters = sorted(set(text))
        self.number = {character: number for number, character in enumerate(self.characters)}
        self.codes = torch.tensor([self.number[character] for character in text])
        self.window = window

    def __len__(self) -> int:
        return (len(self.codes) - 1) // self.window

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        codes = self.codes[index * self.window :][: self.window + 1]
        return codes[:-1], codes[1:]


class CharTransformer(nn.Module):
    """Logits of the next character at each place; it sees what came before only."""

    def __init__(self, characters: int, window: int, width: int = 96, depth: int = 3) -> None:
        super().__init__()
        self.window = window
        self.character = nn.Embedding(characters, width)
        self.place = nn.Embedding(window, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.05, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, characters)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        places = torch.arange(codes.shape[1], device=codes.device)
        mask = nn.Transformer.generate_square_subsequent_mask(len(places), device=codes.device)
        hidden = self.layers(self.character(codes) + self.place(places), mask=mask, is_causal=True)
        return self.head(hidden)


@torch.no_grad()
def sample(model: CharTransformer, text: Text, start: str, count: int) -> str:
    """`count` characters that the model writes after `start`."""
    model.eval()
    codes = torch.tensor([[text.number[character] for character in start]], device=model.head.weight.device)
    for _ in range(count):
        logits = model(codes[:, -model.window :])[0, -1]
        codes = torch.cat([codes, torch.multinomial((logits / 0.7).softmax(0), 1)[None]], dim=1)
    return "".join(text.characters[code] for code in codes[0].tolist())
