"""The encoder that both networks of ELECTRA and every fine-tuned model are built of.

config.py → attention.py, dropout.py → encoder.py (BERT's Transformer), modern.py (ModernBERT's) → kinds.py (the one
that is asked for) → weights.py, modernbert.py (to and from Hugging Face folders)

`token_heads.py` holds the heads of pre-training and `pretrained.py` makes folders of an encoder and its head;
`fresh.py` draws new weights, for the from-scratch arm and for layers on top, and `first_attention.py` says what their
attention begins as; `card.py` writes a folder's model card.
"""
