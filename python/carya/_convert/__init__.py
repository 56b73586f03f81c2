"""Datasets written in another format: WebDataset, MDS, TFRecord, ArrayRecord."""
