"""Settings that change neither the data nor the figures of a run."""

# These settings change the speed or the location of the data, but not the data. Slices add figures.
HARMLESS = {
    f"data.init_args.{name}"
    for name in (
        "data_dir",
        "cache_dir",
        "eval_batch_size",
        "num_workers",
        "pin_memory",
        "batch_size",
        "slices",
    )
}
# A training step sees a batch: its size is part of the training.
HARMLESS_IN_FIT = HARMLESS - {"data.init_args.batch_size"}
# These change where and how fast a run computes, its output, and how often it saves.
HARMLESS_IN_FIGURES = HARMLESS_IN_FIT | {
    f"trainer.{name}"
    for name in (
        *("accelerator", "devices", "num_nodes", "strategy", "logger", "callbacks", "profiler"),
        *("enable_progress_bar", "enable_model_summary", "log_every_n_steps", "plugins"),
        *("default_root_dir", "num_sanity_val_steps", "barebones", "detect_anomaly"),
        *("enable_checkpointing", "enable_autolog_hparams", "model_registry", "fast_dev_run"),
    )
}
