package importer

import "context"

const parquetHelp, neptuneHelp = "", ""

func findParquet(context.Context, string, Options) ([]Found, error) { return nil, nil }
func findNeptune(context.Context, string, Options) ([]Found, error) { return nil, nil }
