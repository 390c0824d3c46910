// Package telemetry is Templar's MetricsLogger for Go: points with a measurement, tags and fields.
//
//	logger, err := telemetry.New(ctx, telemetry.Options{Prefix: "M", UID: "7", Role: telemetry.Miner})
//	logger.Log("training_step", telemetry.Tags{"window": 12}, telemetry.Fields{"loss": 0.75})
//	err = logger.Close(ctx)
//
// The points of [New] go through the spool to the Kymogram server, into the run ROLE-UID. A kill
// of the process loses none. Package telemetry/influx sends them to an InfluxDB instead. It is a
// module of its own, because InfluxDB's client brings the dependencies of a web server.
//
// No call of [Logger.Log] waits for a network or fails. What is not kept is counted
// ([Logger.Counts]) and warned of once. A point is stored in the same place as the same point
// sent as InfluxDB's line protocol. To read the code, start at [Logger.Log]; values.go and
// tags.go hold the original's rules.
package telemetry
