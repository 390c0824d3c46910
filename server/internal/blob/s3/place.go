package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/timing"
)

// Place is a bucket, and a prefix in it.
type Place struct {
	Bucket, Prefix   string
	Endpoint, Region string // "": those of the environment, else of AWS
	// Direct: readers get addresses of S3 itself, see [Store.Link].
	Direct bool
}

// Parse reads s3://BUCKET/PREFIX?endpoint=URL&region=NAME&reads=direct. Keys are no part of it.
func Parse(location string) (Place, error) {
	u, err := url.Parse(location)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return Place{}, model.Errorf(model.CodeInvalid, "it must be s3://BUCKET/PREFIX, with ?endpoint=URL&region=NAME where it is not AWS").
			WithHint("keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from ~/.aws/credentials")
	}
	p := Place{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	if p.Prefix != "" {
		p.Prefix += "/"
	}
	for name, values := range u.Query() {
		switch {
		case name == "endpoint" && len(values) == 1:
			p.Endpoint = values[0]
		case name == "region" && len(values) == 1:
			p.Region = values[0]
		case name == "reads" && len(values) == 1 && values[0] == "direct":
			p.Direct = true
		case name == "reads":
			return Place{}, model.Errorf(model.CodeInvalid, "reads of a bucket may be direct, and nothing else")
		default:
			return Place{}, model.Errorf(model.CodeInvalid, "%q is no setting of a bucket: there are endpoint, region and reads, each once", name)
		}
	}
	if _, err := p.endpoint(); err != nil {
		return Place{}, err
	}
	return p, nil
}

// endpoint is the address of the service.
func (p *Place) endpoint() (*url.URL, error) {
	given := cmp.Or(p.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com")
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
		return nil, model.Errorf(model.CodeInvalid, "the endpoint of S3 must be http://HOST:PORT or https://HOST:PORT") // and may have a key in it
	}
	return u, nil
}

// iamLimit is how long a machine of AWS may take to name its key; another machine has nobody to
// ask.
const iamLimit = 5 * time.Second

// connect makes a client whose requests are counted.
func (p *Place) connect(requests *timing.Acts) (*minio.Client, error) {
	endpoint, err := p.endpoint()
	if err != nil {
		return nil, err
	}
	keys := credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Timeout: iamLimit}}})
	secure := endpoint.Scheme == "https"
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, fmt.Errorf("use the endpoint %s: %w", endpoint, err)
	}
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds: keys, Secure: secure, Transport: counted{transport, requests}, Region: cmp.Or(p.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
	})
	if err != nil {
		return nil, fmt.Errorf("use the endpoint %s: %w", endpoint, err)
	}
	return client, nil
}

// isMissing says whether an object is not there.
func isMissing(err error) bool {
	return err != nil && minio.ToErrorResponse(err).Code == minio.NoSuchKey
}

// failure gives an error of S3 the code and the words of ours.
func failure(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if known := (*model.Error)(nil); errors.As(err, &known) {
		return err
	}
	response := minio.ToErrorResponse(err)
	switch response.Code {
	case minio.NoSuchBucket:
		return model.Errorf(model.CodeUnavailable, "the bucket %s is not there any more", response.BucketName)
	case minio.AccessDenied, minio.InvalidAccessKeyID, minio.SignatureDoesNotMatch, "ExpiredToken", "InvalidToken":
		return model.Errorf(model.CodeUnavailable, "S3 refuses the key: %s", response.Message).
			WithHint("the key must read, write, list and delete in the bucket; it comes from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from ~/.aws/credentials")
	case "XMinioStorageFull", "QuotaExceeded", "InsufficientStorage":
		return model.Errorf(model.CodeDiskFull, "the bucket has no space left: %s", response.Message)
	case "SlowDown", "TooManyRequests", "RequestLimitExceeded":
		return model.Errorf(model.CodeBusy, "S3 asks to slow down: %s", response.Message)
	}
	return model.Errorf(model.CodeUnavailable, "S3 failed: %v", err)
}
