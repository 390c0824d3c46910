package kymogram

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/job"
	"github.com/kymogram/kymogram/internal/rule"
	"github.com/kymogram/kymogram/internal/uplink"
)

const (
	defaultServer       = "http://127.0.0.1:7070"
	defaultPlace        = "default"
	defaultCloseTimeout = 15 * time.Second

	defaultQueue       = 10_000
	defaultPatience    = 100 * time.Millisecond
	defaultRetries     = 60
	defaultSystemEvery = 30 * time.Second
)

// settle fills what is left open from the environment.
func (o *Options) settle() error {
	if o.env == nil {
		o.env = os.Getenv
	}
	if o.SpoolDir != "" {
		env, dir := o.env, o.SpoolDir
		o.env = func(name string) string {
			if name == "KYMOGRAM_SPOOL_DIR" {
				return dir
			}
			return env(name)
		}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.odd = new(sync.Once)
	if o.CloseTimeout == 0 {
		o.CloseTimeout = defaultCloseTimeout
	}
	var err error
	o.Server, err = uplink.ParseServer(o.first(o.Server, "KYMOGRAM_SERVER", "METRANA_INGESTION_URL", defaultServer))
	if err != nil {
		return err
	}
	o.APIKey = o.first(o.APIKey, "KYMOGRAM_API_KEY", "METRANA_API_KEY", "")
	o.Workspace = o.first(o.Workspace, "KYMOGRAM_WORKSPACE", "METRANA_WORKSPACE", defaultPlace)
	o.Project = o.first(o.Project, "KYMOGRAM_PROJECT", "METRANA_PROJECT", defaultPlace)
	if err := o.settleDelivery(); err != nil {
		return err
	}
	o.settleJob()
	return o.check()
}

// first is the given value, else that of one of two variables, else fallback.
func (o *Options) first(given, variable, second, fallback string) string {
	for _, v := range []string{given, o.env(variable), o.env(second)} {
		if v != "" {
			return v
		}
	}
	return fallback
}

func (o *Options) settleJob() {
	o.OrchestrationID = strings.TrimSpace(o.OrchestrationID)
	if o.OrchestrationID == "" {
		o.OrchestrationID = job.Env(o.env).ID()
	}
	if o.OrchestrationID == "" {
		o.OrchestrationID = randomHex(16)
		// Processes of one job that made up an id each must not become a run each.
		o.newName = o.newName && job.Env(o.env).Rank() == nil
		o.newJob = o.newName && o.ForkFromRun == ""
	}
	if o.RunName == "" {
		seed := o.OrchestrationID
		if job.Env(o.env).Again() {
			seed = randomHex(16)
		}
		o.RunName = job.Name(seed)
	}
}

// setting is KYMOGRAM_name, else METRANA_name.
func (o *Options) setting(name string) string {
	return o.first("", "KYMOGRAM_"+name, "METRANA_"+name, "")
}

// choice is a setting in whatever spelling: DropNew and drop-new are drop_new. The
// first choice is the default; what is none of them is told by checkDelivery.
func (o *Options) choice(name string, choices ...string) string {
	text := first(o.setting(name), choices[0])
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(strings.TrimSpace(s)))
	}
	for _, c := range choices {
		if plain(text) == plain(c) {
			return c
		}
	}
	return text
}

// settleDelivery fills what is left open of how points are kept and delivered.
func (o *Options) settleDelivery() error {
	if o.Backpressure == "" {
		o.Backpressure = Backpressure(o.choice("BACKPRESSURE_STRATEGY", string(BackpressureSpool), string(BackpressureDropNew), string(BackpressureBlock), string(BackpressureRaise)))
	}
	if o.ErrorStrategy == "" {
		o.ErrorStrategy = ErrorStrategy(o.choice("ERROR_MODES", string(ErrorsWarn), string(ErrorsSilent), string(ErrorsRaiseOnLog), string(ErrorsRaiseOnClose)))
	}
	if o.ResumeStrategy == "" {
		o.newName = o.setting("RESUME_STRATEGY") == ""
		o.ResumeStrategy = ResumeStrategy(o.choice("RESUME_STRATEGY", string(ResumeNever), string(ResumeAllow)))
	}
	if o.EnqueueTimeout == 0 {
		o.EnqueueTimeout = defaultPatience
	}
	if o.MaxSendRetries == 0 {
		o.MaxSendRetries = defaultRetries
	}
	if o.QueueCapacity == 0 {
		if err := o.settleNumber("EVENT_QUEUE_MAX_SIZE", defaultQueue, &o.QueueCapacity); err != nil {
			return err
		}
	}
	return o.settleSystem()
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func (o *Options) settleNumber(name string, fallback int, into *int) error {
	*into = fallback
	text := o.setting(name)
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 {
		return invalidf("KYMOGRAM_%s is %q, it must be a whole number", name, text)
	}
	*into = max(n, 1) // Metrana takes 0, where one point finds room all the same
	return nil
}

func (o *Options) settleSystem() error {
	capture, err := o.flag("CAPTURE_SYSTEM_METRICS", runtime.GOOS == "linux")
	if err != nil {
		return err
	}
	o.NoSystemMetrics = o.NoSystemMetrics || !capture
	if text := o.setting("SYSTEM_METRICS_INTERVAL_SECS"); o.SystemMetricsInterval == 0 && text != "" {
		every, err := duration.Seconds(text)
		if err != nil || every <= 0 || every > longestSetting {
			return invalidf("KYMOGRAM_SYSTEM_METRICS_INTERVAL_SECS is %q, it must be a number of seconds, or a duration such as 1m30s", text)
		}
		o.SystemMetricsInterval = every
	}
	if o.SystemMetricsInterval == 0 {
		o.SystemMetricsInterval = defaultSystemEvery
	}
	return nil
}

// longestSetting is what a time of the environment may be at most: beyond is a slip of the pen.
const longestSetting = 1e6 * time.Second

// flag is a yes or no of the environment.
func (o *Options) flag(name string, fallback bool) (bool, error) {
	switch text := strings.ToLower(o.setting(name)); text {
	case "":
		return fallback, nil
	case "1", "true", "yes", "on":
		return true, nil
	case "0", "false", "no", "off":
		return false, nil
	default:
		return false, invalidf("KYMOGRAM_%s is %q, it must be true or false", name, text)
	}
}

func (o *RenderingOptions) settle(all *Options) error {
	skip, err := all.flag("SKIP_DRAIN_RENDER_ON_CLOSE", false)
	if err != nil {
		return err
	}
	o.SkipDrainOnClose = o.SkipDrainOnClose || skip
	if text := all.setting("RENDERING_CLOSE_TIMEOUT"); o.CloseTimeout == 0 && text != "" {
		limit, err := duration.Seconds(text)
		if err != nil || limit > longestSetting {
			return invalidf("KYMOGRAM_RENDERING_CLOSE_TIMEOUT is %q, it must be a number of seconds, or a duration such as 1m30s", text)
		}
		o.CloseTimeout = limit
	}
	for what, n := range map[string]*int{"FPS": &o.FPS, "MaxConcurrentEncoders": &o.MaxConcurrentEncoders, "NumEncoderThreads": &o.NumEncoderThreads} {
		if *n == 0 {
			*n = map[string]int{"FPS": 30, "MaxConcurrentEncoders": 16, "NumEncoderThreads": 2}[what]
		}
		if *n < 0 {
			return invalidf("Rendering.%s is %d, it must not be negative", what, *n)
		}
	}
	if o.QueueMaxSize < 0 || o.CloseTimeout < 0 || o.UploadConcurrency < 0 || o.UploadCloseTimeout < 0 || o.UploadWarnThreshold < -1 {
		return invalidf("a limit of Rendering is negative")
	}
	if o.UploadWarnThreshold == 0 {
		o.UploadWarnThreshold = 100
	}
	switch o.Upload {
	case "":
		o.Upload = UploadAll
	case UploadAll, UploadTriggered, UploadOff:
	default:
		return invalidf("Rendering.Upload is %q, not one of all, triggered, off", o.Upload)
	}
	o.settleFolder(all)
	return nil
}

func (o *RenderingOptions) settleFolder(all *Options) {
	if o.OutputDir != "" || o.Upload != UploadOff {
		return
	}
	state := all.env("XDG_STATE_HOME")
	if state == "" {
		state = filepath.Join(all.env("HOME"), ".local", "state")
	}
	o.OutputDir = filepath.Join(state, "kymogram", "renderings")
}

func (o *Options) check() error {
	checks := []error{
		rule.Place("workspace", o.Workspace), rule.Place("project", o.Project),
		rule.Run("run name", o.RunName), rule.Run("orchestration id", o.OrchestrationID),
		rule.Tags(o.Tags), checkKey(o.APIKey), o.checkDelivery(), o.Rendering.settle(o),
	}
	for what, name := range map[string]string{"display name": o.DisplayName, "experiment": o.Experiment, "run to fork from": o.ForkFromRun} {
		if name != "" {
			checks = append(checks, rule.Run(what, name))
		}
	}
	if o.ResumeStrategy != ResumeNever && o.ResumeStrategy != ResumeAllow {
		checks = append(checks, invalidf("resume strategy %q is neither %q nor %q", o.ResumeStrategy, ResumeNever, ResumeAllow))
	}
	if o.ResumeFromStep != nil {
		checks = append(checks, rule.Step("resume step", *o.ResumeFromStep))
	}
	if o.ForkAtStep != nil {
		checks = append(checks, rule.Step("fork step", *o.ForkAtStep))
		if o.ForkFromRun == "" {
			checks = append(checks, invalidf("a fork step needs the run to fork from"))
		}
	}
	return errors.Join(checks...)
}

func (o *Options) checkDelivery() error {
	switch o.Backpressure {
	case BackpressureSpool, BackpressureDropNew, BackpressureBlock, BackpressureRaise:
	default:
		return invalidf("backpressure strategy %q is not one of spool, drop_new, block, raise", o.Backpressure)
	}
	switch o.ErrorStrategy {
	case ErrorsSilent, ErrorsWarn, ErrorsRaiseOnLog, ErrorsRaiseOnClose:
	default:
		return invalidf("error strategy %q is not one of silent, warn, raise_on_log, raise_on_close", o.ErrorStrategy)
	}
	switch o.Compression {
	case "", "none", "zstd":
	default:
		return invalidf("compression %q is neither none nor zstd", o.Compression)
	}
	if o.QueueCapacity < 1 || o.MaxSendRetries < -1 || o.MaxPendingRequests < 0 || o.MaxMsgSize < 0 {
		return invalidf("a limit of the delivery is negative: queue %d, retries %d, requests %d, bytes %d", o.QueueCapacity, o.MaxSendRetries, o.MaxPendingRequests, o.MaxMsgSize)
	}
	for what, d := range map[string]time.Duration{
		"enqueue timeout": o.EnqueueTimeout, "batch age": o.BatchMaxAge, "first backoff": o.SendRetryInitialBackoff,
		"last backoff": o.SendRetryMaxBackoff, "interval of system metrics": o.SystemMetricsInterval,
	} {
		if d < 0 {
			return invalidf("the %s is %s, it must not be negative", what, d)
		}
	}
	return nil
}

func checkKey(key string) error {
	if i := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return invalidf("the API key contains a character at place %d that a key never has", i)
	}
	return nil
}
