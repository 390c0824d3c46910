// Package telemetry is Templar's MetricsLogger for Go: points with a measurement, tags and fields.
//
//	logger, err := telemetry.New(ctx, telemetry.Options{Prefix: "M", UID: "7", Role: telemetry.Miner})
//	logger.Log("training_step", telemetry.Tags{"window": 12}, telemetry.Fields{"loss": 0.75})
//	err = logger.Close(ctx)
//
// The points of [New] go through the spool to the Kymogram server, into the run ROLE-UID, so that
// a kill of the process loses none. Package telemetry/influx sends them to an InfluxDB instead; it
// is a module of its own: InfluxDB's client brings a web server's dependencies, of which nobody
// else is to hear.
//
// What holds: no call of [Logger.Log] waits for a network or fails; what is not kept is counted
// ([Logger.Counts]) and told once. A point lands where the same point sent through the server's
// Influx door lands. To read the code, start at [Logger.Log]; values.go and tags.go hold the
// original's rules.
package telemetry
