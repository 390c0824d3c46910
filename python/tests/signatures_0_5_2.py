"""What `inspect.signature` says of metrana 0.5.2: names and their order.

`make compat` compares it with the package itself where that installs.
"""

INIT = (
    "resume_strategy orchestration_id backpressure_strategy compression error_strategy log_level "
    "autoconfigure_loguru create_project_if_missing api_key logger_id fork_from_run fork_at_step "
    "tags description config queue_capacity enqueue_timeout_secs init_timeout_secs "
    "connect_timeout_secs max_pending_requests max_send_retries send_retry_initial_backoff_secs "
    "send_retry_max_backoff_secs batch_max_age_secs max_msg_size rendering_output_dir "
    "rendering_fps rendering_max_concurrent_encoders rendering_queue_max_size "
    "skip_drain_render_on_close rendering_close_timeout"
)
_LOG = "metric_name value scale step labels evaluation timestamp kill_timeout"
_RL = "metric_name value rl_step evaluation episode env_id labels timestamp kill_timeout"

FUNCTIONS = {
    "init": INIT,
    "is_initialized": "",
    "log": _LOG,
    "log_distributed": _LOG,
    "log_rl_episode": _RL,
    "log_rl_environment_step": _RL,
    "log_rendering": "frame rl_step episode env_id kill_timeout",
    "log_config": "config kill_timeout",
    "log_attributes": "prefix_path value kill_timeout",
    "log_env_attributes": "env_id value episode kill_timeout",
    "set_tags": "tags kill_timeout",
    "add_tags": "tags kill_timeout",
    "remove_tags": "tags kill_timeout",
    "set_description": "description kill_timeout",
    "get_last_step": "metric_name scale labels kill_timeout",
    "get_env_last_rl_step_and_episode": "env_id kill_timeout",
    "get_metrics": "kill_timeout",
    "check_sender_errors": "kill_timeout",
    "close": "close_timeout",
}

ENUMS = {
    "BackpressureStrategy": {"DropNew": "drop_new", "Block": "block", "Raise": "raise"},
    "Compression": {"Off": "none", "Zstd": "zstd"},
    "ErrorStrategy": {
        "Silent": "silent",
        "Warn": "warn",
        "RaiseOnLog": "raise_on_log",
        "RaiseOnClose": "raise_on_close",
    },
    "LogLevel": {
        "Trace": "TRACE",
        "Debug": "DEBUG",
        "Info": "INFO",
        "Success": "SUCCESS",
        "Warn": "WARNING",
        "Error": "ERROR",
        "Critical": "CRITICAL",
        "Off": "OFF",
    },
    "ResumeStrategy": {"Never": "never", "Allow": "allow"},
    "StandardMetricScale": {
        "ML_STEP": "ML_STEP",
        "EPISODE": "EPISODE",
        "ENVIRONMENT_STEP": "ENVIRONMENT_STEP",
    },
}

EXCEPTIONS = (
    "MetranaClosingError MetranaErrorQueueFullError MetranaEventQueueFullError "
    "MetranaLoggerClosedError MetranaLoggerInitError MetranaNotInitializedError "
    "MetranaOrchestrationIdMismatchError MetranaProcessForkError MetranaRunAlreadyExistsError "
    "MetranaSenderError MetranaValidationError NoMetranaApiKeyError "
    "UnrecognizedMetranaBackpressureStrategyError UnrecognizedMetranaErrorStrategyError"
).split()

VARIABLES = (
    "METRANA_API_KEY METRANA_BACKPRESSURE_STRATEGY METRANA_ERROR_MODES "
    "METRANA_EVENT_QUEUE_MAX_SIZE METRANA_LOG_LEVEL METRANA_ORCHESTRATION_ID "
    "METRANA_RENDERING_CLOSE_TIMEOUT METRANA_RENDER_ERROR_QUEUE_MAX_SIZE "
    "METRANA_RESUME_STRATEGY METRANA_SKIP_DRAIN_RENDER_ON_CLOSE"
).split()

# Defaults that the document names, and the one that is another here by intent.
DEFAULTS = {
    "enqueue_timeout_secs": 0.1,
    "max_pending_requests": 30,
    "max_send_retries": 60,
    "send_retry_initial_backoff_secs": 0.05,
    "send_retry_max_backoff_secs": 15.0,
    "batch_max_age_secs": 1.0,
    "max_msg_size": 1 << 20,
    "init_timeout_secs": 120.0,
    "connect_timeout_secs": 5.0,
    "rendering_fps": 30,
    "rendering_max_concurrent_encoders": 1,
}
METRICS = [
    f"{kind}_{what}"
    for kind in ("float_points", "rl_float_points", "attribute_updates", "env_attribute_updates")
    for what in ("added", "enqueued", "sent", "dropped")
] + ["connection_attempts", "requests_sent", "send_errors", "errors_reported", "errors_evicted"]
