// What kstatus (and so Flux, Helm --wait and kpt) concludes from each JSON object on stdin: one line of JSON each.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type answer struct {
	Status  status.Status `json:"status"` // InProgress, Failed, Current, Terminating, NotFound, Unknown
	Message string        `json:"message"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kstatus:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	objects, answers := json.NewDecoder(in), json.NewEncoder(out)
	for number := 1; ; number++ {
		var object unstructured.Unstructured
		if err := objects.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("object %d: %w", number, err)
		}
		found, err := status.Compute(&object)
		if err != nil {
			return fmt.Errorf("object %d: %w", number, err)
		}
		if err := answers.Encode(answer{found.Status, found.Message}); err != nil {
			return err
		}
	}
}
