"""The made-up model and rows of the fine-tuning tests."""

from tests.electra.finetuning.conftest import model, modern_model, task_rows, tokenizer

__all__ = ["model", "modern_model", "task_rows", "tokenizer"]
