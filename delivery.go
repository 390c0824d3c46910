package kymogram

import (
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/spool"
)

const (
	defaultQueue       = 10_000
	defaultPatience    = 100 * time.Millisecond
	defaultRetries     = 60
	defaultSystemEvery = 30 * time.Second
)

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
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds > 0) || seconds > 1e6 {
			return invalidf("KYMOGRAM_SYSTEM_METRICS_INTERVAL_SECS is %q, it must be a number of seconds", text)
		}
		o.SystemMetricsInterval = time.Duration(seconds * float64(time.Second))
	}
	if o.SystemMetricsInterval == 0 {
		o.SystemMetricsInterval = defaultSystemEvery
	}
	return nil
}

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

// pace is what open.json tells the deliverer.
func (o *Options) pace() *spool.Pace {
	p := &spool.Pace{
		MaxPending: o.MaxPendingRequests, BatchAgeMs: o.BatchMaxAge.Milliseconds(), MaxBytes: o.MaxMsgSize, Compression: o.Compression,
		FirstBackoffMs: o.SendRetryInitialBackoff.Milliseconds(), LastBackoffMs: o.SendRetryMaxBackoff.Milliseconds(),
		RenderingUploads: o.Rendering.UploadConcurrency,
	}
	if o.Backpressure != BackpressureSpool && o.MaxSendRetries >= 0 {
		tries := uint64(o.MaxSendRetries)
		p.GiveUpAfter = &tries
	}
	if *p == (spool.Pace{}) {
		return nil
	}
	return p
}

func (o *Options) system() *spool.System {
	if o.NoSystemMetrics {
		return nil
	}
	return &spool.System{IntervalMs: o.SystemMetricsInterval.Milliseconds()}
}

// set bounds the gate where the options ask for it.
func (g *gate) set(o *Options) {
	if o.Backpressure != BackpressureSpool {
		g.strategy, g.capacity, g.patience = o.Backpressure, uint64(o.QueueCapacity), o.EnqueueTimeout
	}
}
