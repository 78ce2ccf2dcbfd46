"""The encoder that both networks of ELECTRA and every fine-tuned model are built of.

config.py → encoder.py (BERT's Transformer) → modern.py (ModernBERT's) → attention_init.py →
factory.py (encoders of either kind with new weights) → hf_names.py → huggingface.py (Hugging Face
folders)

`token_heads.py` holds the heads of pre-training.
"""
