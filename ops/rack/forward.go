package rack

import (
	"context"
	"io"
	"net"
	"sync"
)

// forward joins each connection that l takes to one that dial opens, until ctx
// ends: the bus listens on the host, rackd lives in the rack's namespace.
func forward(ctx context.Context, l net.Listener, dial func(ctx context.Context) (net.Conn, error)) error {
	var open sync.WaitGroup
	defer open.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		in, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		open.Go(func() {
			defer in.Close()
			out, err := dial(ctx)
			if err != nil {
				return // the client sees its connection close and tries again
			}
			defer out.Close()
			stop := context.AfterFunc(ctx, func() { in.Close(); out.Close() })
			defer stop()
			done := make(chan struct{})
			go func() {
				defer close(done)
				io.Copy(out, in)
				out.Close()
			}()
			io.Copy(in, out)
			in.Close()
			<-done
		})
	}
}
