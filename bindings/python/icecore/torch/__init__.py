"""icecore for PyTorch: ``icecore.torch.checkpoint`` stores checkpoints of ``torch.distributed.checkpoint``.

States of models on one process need nothing of this: ``store.save_state("model", model.state_dict())``.
"""
