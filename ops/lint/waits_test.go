package lint

import (
	"slices"
	"testing"
)

// What bounds many waits.
const (
	life       = "the program's life: SIGTERM ends it, or the end of the context that it is run with"
	shellsLife = "the life of a user's shell: the end of the connection or of the machine ends it"
	members    = "those that it waits for end with the same context, and each of their waits is in this list or has a deadline"
	slot       = "nothing: it gives back a place that it holds, which is never empty"
	room       = "nothing: the channel has room for all that is sent"
	silent     = "store.silentFor, the silence of the connection (TestSilentServer)"
	patient    = "store.groupPatience, after which the group's transaction ends, and the statements' own bounds"
	local      = "the local disk: SQLite is in this process, and waits for another writer no longer than its busy_timeout"
	dialled    = "the client dials beside it and tries again (RetryOnFailedConnect); each dial has the library's two seconds"
	pending    = "the library's bound for what is pending; beyond it messages are dropped, counted and told of (bus.Attend)"
	caller     = "the caller's deadline: "
)

// waiting are all places of the served programs that may wait, and whose bound the test cannot prove: what
// bounds each.
var waiting = map[string]string{
	"rackd/diskimage/convert.go run (*exec.Cmd).Run":                             "the step's context ends the program, which has the deadline of the node's state; processor bounds its seconds",
	"rackd/imagecache/derive.go Derive receives":                                 slot,
	"rackd/imagecache/derive.go Derive selects":                                  "the step's context, which has the deadline of the node's state; a conversion ends with its program, or with its caller",
	"rackd/ociimage/ociimage.go Open (registry.ReferenceFetcher).FetchReference": "Cache.stall: a registry that sends less than trickle.Least in that time is given up",
	"rackd/ociimage/resolve.go read (registry.ReferenceFetcher).FetchReference":  "Cache.stall: a registry that sends less than trickle.Least in that time is given up",

	"rackd/driver/ansible/play.go start (*exec.Cmd).Wait":                    "play.watch, which kills the program when its node is lost or its step looks no more; the step has the deadline of the node's state",
	"rackd/driver/ssh/session.go channel sends":                              room,
	"rackd/driver/serialline/shell.go Answers sends":                         room,
	"rackd/driver/serialline/shell.go Shell sends":                           room,
	"rackd/driver/serialline/line.go send sends":                             room,
	"rackd/driver/serialline/websocket.go Read (*websocket.Conn).Reader":     "the end of the line: line.watch asks a silent other end, and Close ends it",
	"rackd/driver/serialline/websocket.go Write (*websocket.Conn).Write":     "line.send, which closes the connection when its caller's context ends",
	"rackd/driver/libvirt/replies.go Write (net.Conn).Write":                 "session.call, which closes the connection when a call has lasted CallTimeout; line.send for a console",
	"rackd/driver/libvirt/stream.go take selects":                            "the end of the line, which closes it: its reader takes what comes",
	"rackd/driver/libvirt/stream.go Read selects":                            "the end of the line: line.watch asks a silent other end, and Close ends it",
	"rackd/iscsi/session.go Close receives":                                  "fail has closed the connection that both goroutines use",
	"rackd/iscsi/session.go Connect (*sync.WaitGroup).Wait":                  "the session's end, which closes the connection",
	"rackd/iscsi/session.go wait receives":                                   "fail has ended the task",
	"rackd/iscsi/session.go wait selects":                                    "Session.watch, which gives a silent target up",
	"agent/boot/boot.go network sends":                                       room,
	"agent/boot/end.go wait (*sync.WaitGroup).Wait":                          members,
	"agent/boot/serve.go serve (*http.Server).ServeTLS":                      life,
	"agent/boot/serve.go serve (*net.ListenConfig).Listen":                   "nothing: it opens a local socket",
	"agent/boot/serve.go serve receives":                                     members,
	"agent/boot/serve.go serve selects":                                      life,
	"agent/boot/serve.go serve sends":                                        room,
	"agent/command/command.go Close (*sync.WaitGroup).Wait":                  "the command's context, which Close ends; pid 1 reboots a machine whose agent does not end",
	"agent/command/command.go Wait selects":                                  "the state's deadline at the rackd, which goes by the agent's answers",
	"agent/confine/doc.go Run (*exec.Cmd).Run":                               "the context that the command is made with; bootloader.bound or deploy.mkfsBound is its deadline",
	"agent/deploy/deploy.go reread receives":                                 "a fifth of a second, five times",
	"agent/deploy/partitions.go waitFor receives":                            "a tenth of a second, fifty times",
	"agent/deploy/erase.go each (*errgroup.Group).Wait":                      "the state's deadline at the rackd, which goes by the progress of the erasure: a disk that hangs shows none",
	"agent/iscsitarget/gate.go accept (net.Listener).Accept":                 "the gate's end, which closes the listener",
	"agent/iscsitarget/gate.go close (*sync.WaitGroup).Wait":                 "close has closed all that they read from",
	"agent/iscsitarget/gate.go open (*net.ListenConfig).Listen":              "nothing: it opens a local socket",
	"rackd/netboot/boottls/bounded.go Sign sends":                            "those that have a place compute, and wait for no peer",
	"rackd/netboot/boottls/bounded.go Sign receives":                         "nothing: its place is its own",
	"rackd/netboot/boottls/bounded.go Decrypt sends":                         "those that have a place compute, and wait for no peer",
	"rackd/netboot/boottls/bounded.go Decrypt receives":                      "nothing: its place is its own",
	"agent/iscsitarget/gate.go pass (net.Conn).Write":                        "the write deadline that pass has set, of firstWithin",
	"agent/iscsitarget/gate.go pass receives":                                "both connections are closed by then",
	"agent/image/attempt.go pump ranges":                                     "the download's bound (image.body), and the state's deadline at the rackd for a disk that hangs",
	"agent/image/attempt.go pump sends":                                      room,
	"agent/image/arriving.go ReadAt (*sync.Cond).Wait":                       "the download's goroutine wakes it with each piece and at its end, which the download's bound brings (image.body)",
	"agent/image/arriving.go whole (*sync.Cond).Wait":                        "the download's goroutine wakes it at its end, which the download's bound brings (image.body)",
	"agent/image/summing.go sumAside ranges":                                 "stream.Close and verify end it by close",
	"agent/image/summing.go sumAside sends":                                  room,
	"agent/image/summing.go Write receives":                                  "sumAside waits for nothing and gives its buffers back",
	"agent/image/summing.go Write sends":                                     room,
	"agent/image/summing.go close sends":                                     room,
	"agent/image/summing.go close receives":                                  "sumAside ends once it has summed what is there",
	"agent/image/qcow2.go convert receives":                                  "the piece's reader, which reads the spool: within the download's bound (image.body)",
	"agent/image/qcow2.go runs sends":                                        room,
	"agent/image/qcow2.go runs receives":                                     "the piece's reader, which reads the spool: within the download's bound (image.body)",
	"agent/image/qcow2.go convert ranges":                                    "the file is kept in memory, or read within the download's bound; the state's deadline at the rackd for a disk that hangs",
	"agent/image/qcow2.go convert sends":                                     room,
	"agent/image/qcow2.go runs selects":                                      "convert takes what it puts and gives its buffers back, or ends its context",
	"agent/image/fetch.go get (*http.Client).Do":                             "Writer.Stall: a server that sends less than trickle.Least in that time is given up, and asked resumes times Attempts times at most",
	"agent/image/fetch.go get http.NewRequestWithContext":                    "Writer.Stall: a server that sends less than trickle.Least in that time is given up, and asked resumes times Attempts times at most",
	"agent/bootserver/bootserver.go ask (*http.Client).Do":                   "answerWithin, of the request's context",
	"agent/netup/netup.go Run (*sync.WaitGroup).Wait":                        members,
	"agent/netup/six.go keep6 (*sync.WaitGroup).Wait":                        "the context, which ends the look for an address",
	"agent/netup/netup.go Run selects":                                       life,
	"agent/netup/netup.go ask (*nclient4.Client).Request":                    "tryFor for each of its packets, tries times",
	"agent/pid1/pid1.go Main receives":                                       life,
	"agent/pid1/pid1.go reapUntil unix.Wait4":                                "nothing: WNOHANG",
	"agent/pid1/pid1.go reboot receives":                                     "the machine's reboot, which it has asked for",
	"agent/pid1/pid1.go supervise receives":                                  life,
	"agent/rackclient/rackclient.go try (*http.Client).Do":                   "perTry, of the request's context",
	"central/api/node_page.go readPage receives":                             slot,
	"central/auth/basic.go fits receives":                                    slot,
	"central/auth/basic.go fits selects":                                     caller + "strangers.Budget.Time (Door.Enter), else Server.begin's",
	"central/auth/issuerkeys.go fetch (*http.Client).Do":                     "the client's Timeout (TestOIDCSilentIssuer)",
	"central/auth/issuerkeys.go fetch http.NewRequestWithContext":            "the client's Timeout (TestOIDCSilentIssuer)",
	"central/auth/issuerkeys.go fetch oidc.NewProvider":                      "the client's Timeout (TestOIDCSilentIssuer)",
	"central/auth/issuerkeys.go since selects":                               caller + "strangers.Budget.Time (Door.Enter), else Server.begin's; the fetch has the client's Timeout",
	"central/auth/keystone.go Authenticate receives":                         slot,
	"central/auth/keystonewire.go do (*http.Client).Do":                      "the client's Timeout",
	"central/auth/oidc.go check (*oidc.IDTokenVerifier).Verify":              caller + "strangers.Budget.Time (Door.Enter), else Server.begin's",
	"central/daemon/buses.go connect nats.go.Connect":                        dialled,
	"central/daemon/daemon.go Run (*errgroup.Group).Wait":                    members,
	"central/daemon/listen.go serve (*http.Server).Serve":                    life,
	"central/daemon/notify.go Hear (*nats.go.Conn).Subscribe":                pending,
	"central/daemon/notify.go publish (*nats.go.Conn).FlushWithContext":      caller + "Feed.tellOthers, half of its Patience",
	"central/enrol/bus.go PushAccounts nats.go.Connect":                      dialled,
	"central/enrol/handler.go handle receives":                               slot,
	"central/ingest/arrivals.go next selects":                                "the consumer's heartbeat, whose absence asks the site; else life",
	"central/ingest/arrivals.go take selects":                                "arrivals.close, which Follow defers",
	"central/ingest/feed.go read ranges":                                     "answerWithin, of the fetch's context",
	"central/inspection/call.go once (*http.Client).Do":                      "Call.Timeout, of the request's context",
	"central/inspection/caller.go Open (*sync.WaitGroup).Wait":               "Call.Timeout for each try; closing ends their context",
	"central/inspection/caller.go Open ranges":                               life,
	"central/relay/inbox.go newInbox sends":                                  room,
	"central/relay/drives.go compareDrives (*errgroup.Group).Wait":           "writeTimeout for each of its members",
	"central/relay/drives.go compareInstanceDrives (*errgroup.Group).Wait":   "writeTimeout for each of its members",
	"central/relay/writer.go each (*errgroup.Group).Wait":                    "writeTimeout for each of its members",
	"central/roster/roster.go WaitFor selects":                               caller + "tests alone call it",
	"central/sites/set.go Run (*errgroup.Group).Wait":                        members,
	"central/sites/set.go once (*errgroup.Group).Wait":                       members,
	"central/store/gatherer.go read selects":                                 patient,
	"central/store/gatherer.go run sends":                                    room,
	"central/store/group.go alone receives":                                  slot,
	"central/store/group.go alone selects":                                   silent + ", of whoever holds the place, as often as it is tried (maxAttempts)",
	"central/store/group.go await selects":                                   patient,
	"central/store/group.go give sends":                                      room,
	"central/store/group.go lead receives":                                   patient,
	"central/store/group.go run sends":                                       room,
	"central/store/group.go transact receives":                               patient,
	"central/store/group.go transact selects":                                patient,
	"central/store/pipeline.go rollback (*pgxpool.Conn).Exec":                silent,
	"central/store/postgres.go beginWith (*pgxpool.Pool).Acquire":            silent + ", of those who hold the pool's connections, and connectTimeout",
	"central/store/postgres.go openPostgres (*pgxpool.Pool).QueryRow":        silent,
	"central/store/postgres.go openPostgres pgxpool.NewWithConfig":           "nothing: it connects beside",
	"central/store/postgres.go ping (*pgxpool.Pool).Ping":                    silent,
	"central/store/postgres.go planned (*v5.Conn).Exec":                      silent,
	"central/store/postgres.go transact crdbpgxv5.ExecuteTx":                 silent,
	"central/store/silence.go Read (net.Conn).Read":                          silent,
	"central/store/silence.go Write (net.Conn).Write":                        silent,
	"central/store/sqlite.go openSQLite (*sql.DB).PingContext":               local,
	"central/store/sqlite.go ping (*sql.DB).PingContext":                     local,
	"central/store/sqlitelog.go settle (*sync.Cond).Wait":                    local,
	"central/store/sqlitewriter.go begin (*sql.DB).QueryContext":             local,
	"central/store/sqlitewriter.go begin selects":                            patient,
	"central/store/sqlitewriter.go begin sends":                              slot,
	"central/store/sqlitewriter.go close receives":                           patient,
	"central/store/sqlitewriter.go end sends":                                slot,
	"central/store/sqlitewriter.go exec (*sql.Stmt).ExecContext":             local,
	"central/store/sqlitewriter.go newSQLiteWriter sends":                    room,
	"central/store/sqlitewriter.go open (*sql.DB).Conn":                      local,
	"central/store/sqlitewriter.go prepared (*sql.Conn).PrepareContext":      local,
	"central/store/sqlitewriter.go prepared (*sql.DB).PrepareContext":        local,
	"central/store/sqlitewriter.go query (*sql.Stmt).QueryContext":           local,
	"central/store/together.go await receives":                               patient,
	"central/store/together.go each receives":                                patient + "; a member's function waits for nothing but its statements",
	"central/store/together.go ended sends":                                  room,
	"central/store/together.go tell sends":                                   room,
	"central/store/together.go together sends":                               room,
	"central/store/together.go undo sends":                                   room,
	"central/strangers/gate.go Work receives":                                slot,
	"ops/embeddedbus/embeddedbus.go Connect nats.go.Connect":                 "nothing: the server is in this process",
	"ops/embeddedbus/embeddedbus.go Stop (*server.Server).WaitForShutdown":   "the server in this process, which was told to end",
	"ops/site/site.go Serve (*errgroup.Group).Wait":                          members,
	"ops/site/site.go Serve selects":                                         life,
	"protocol/bus/append.go append selects":                                  "batchWithin for a batch, the client's five seconds for a message by itself",
	"protocol/bus/append.go each (*errgroup.Group).Wait":                     "the client's five seconds for each of its members, or the caller's deadline",
	"protocol/bus/beat.go Beats (*nats.go.Conn).Subscribe":                   pending,
	"protocol/failpoint/failpoint.go signal selects":                         "nothing, on purpose: a test has armed it to stop here",
	"protocol/filelock/filelock.go Try unix.Flock":                           "nothing: LOCK_NB",
	"protocol/join/client.go post (*http.Client).Do":                         "timeout, of the request's context",
	"rackd/agentclient/send.go Lives (*http.Transport).RoundTrip":            caller + "rivalTimeout",
	"rackd/agentclient/send.go Lives http.NewRequestWithContext":             caller + "rivalTimeout",
	"rackd/agentclient/send.go sendWith (*http.Transport).RoundTrip":         "the client's Timeout, of the request's context",
	"rackd/agentdoor/agentdoor.go Serve (*http.Server).Serve":                life,
	"rackd/command/command.go connect nats.go.Connect":                       dialled,
	"rackd/command/command.go run (*errgroup.Group).Wait":                    members,
	"rackd/conductor/conductor.go Run (*errgroup.Group).Wait":                members,
	"rackd/conductor/runner/runner.go Run (*sync.WaitGroup).Wait":            "rivalTimeout, of the questions whether an agent lives; the run's end ends their context",
	"rackd/configdrive/fetch.go fetch (*http.Client).Do":                     "fetchTimeout, of the request's context",
	"rackd/daemon/answers.go answerQuestions (*errgroup.Group).Wait":         "ask.Timeout, of each question",
	"rackd/daemon/answers.go hear (*nats.go.Conn).Subscribe":                 pending,
	"rackd/daemon/answers.go hear selects":                                   life,
	"rackd/daemon/answers.go hearOf receives":                                slot,
	"rackd/daemon/answers.go take receives":                                  slot,
	"rackd/daemon/daemon.go Run (*errgroup.Group).Wait":                      members,
	"rackd/daemon/daemon.go connected selects":                               life + "; /healthz says what it waits for",
	"rackd/daemon/daemon.go start selects":                                   life + "; /healthz says what it waits for",
	"rackd/daemon/daemon.go synced selects":                                  life + "; /healthz says what it waits for",
	"rackd/daemon/machines.go listen (*net.ListenConfig).Listen":             "nothing: it opens a local socket",
	"rackd/daemon/machines.go listen (*net.ListenConfig).ListenPacket":       "nothing: it opens a local socket",
	"rackd/daemon/machines.go listenDHCP (*net.ListenConfig).ListenPacket":   "nothing: it opens a local socket",
	"rackd/daemon/observe.go serveHTTP (*http.Server).Serve":                 life,
	"rackd/daemon/turns.go do receives":                                      slot,
	"rackd/driver/iboot/dxp.go readOnce (net.Conn).Write":                    "the deadline that greet sets",
	"rackd/driver/iboot/dxp.go write (net.Conn).Write":                       "the deadline that greet sets",
	"rackd/driver/libvirt/session.go call sends":                             room,
	"rackd/driver/snmp/snmpclient/session.go Read (net.Conn).Read":           "the deadline that gosnmp sets for each answer",
	"rackd/driver/snmp/snmpclient/session.go Write (net.Conn).Write":         "the deadline that gosnmp sets for each answer; a datagram waits for no other side",
	"rackd/driver/wol/wol.go send (*net.Dialer).DialContext":                 "the dialer's Timeout",
	"rackd/driver/wol/wol.go send (net.Conn).Write":                          "nothing: a datagram waits for no other side",
	"rackd/driver/bmc/http.go send (*http.Transport).RoundTrip":              "HTTPOptions.ConnectTimeout and AnswerTimeout, body and all",
	"rackd/driver/bmc/pool.go Close (*sync.WaitGroup).Wait":                  "farewell, of each logout",
	"rackd/driver/bmc/pool.go use (*rate.Limiter).Wait":                      "a second divided by PoolOptions.Pace, whatever the BMC does: the caller has the BMC's turn",
	"rackd/driver/bmc/pool.go give receives":                                 slot,
	"rackd/driver/bmc/pool.go take selects":                                  caller + "ask.Timeout, the step's, readTimeout of power sync; who holds the BMC's turn has such a deadline too",
	"rackd/driver/ipmi/conn.go login (*net.Dialer).DialContext":              "Options.Timeout (outbound.Dialer); it opens a UDP socket, and looks a name up",
	"rackd/driver/ipmi/lan/doc.go filled (*net.Dialer).DialContext":          caller + "it opens a UDP socket",
	"rackd/driver/ipmi/lan/login20.go keys (net.Conn).Write":                 "nothing: a datagram goes or is dropped",
	"rackd/driver/ipmi/lan/session.go leave (net.Conn).Write":                "nothing: a datagram goes or is dropped",
	"rackd/driver/ipmi/lan/session.go round (net.Conn).Read":                 "the try's read deadline, and the end of the context, which moves it",
	"rackd/driver/ipmi/lan/session.go round (net.Conn).Write":                "nothing: a datagram goes or is dropped",
	"rackd/driver/ipmi/lan/session.go round receives":                        "a function that sets a deadline and runs already",
	"rackd/driver/redfish/session.go connect gofish.ConnectContext":          "Options.ReadTimeout for each request (bmc.HTTP.send), and the call's own context",
	"rackd/imagecache/flight.go wait receives":                               "the fetch's context, which has ended: a file system that hangs holds it",
	"rackd/imagecache/flight.go wait selects":                                "Cache.stall: a source that sends less than trickle.Least in that time is given up",
	"rackd/imagecache/latest.go turn receives":                               slot,
	"rackd/imagecache/latest.go turn selects":                                "the caller's context, or Cache.stall of the fetch: a source that sends less than trickle.Least in that time is given up; else the machine's connection",
	"rackd/imagecache/open.go open (*http.Client).Do":                        "Cache.stall: a source that sends less than trickle.Least in that time is given up",
	"rackd/imagecache/open.go open http.NewRequestWithContext":               "Cache.stall: a source that sends less than trickle.Least in that time is given up",
	"rackd/lease/renew.go Run (*errgroup.Group).Wait":                        members,
	"rackd/metrics/metrics.go Collect sends":                                 "the registry, which reads until it is told that all has come",
	"rackd/metrics/metrics.go Describe sends":                                "the registry, which reads until it is told that all has come",
	"rackd/imagecache/verify.go Verify receives":                             slot,
	"rackd/imagecache/verify.go Verify selects":                              "the step's context, which has the deadline of the node's state; a verification ends with the file, or with its caller",
	"rackd/imagecache/verify.go whole receives":                              slot,
	"rackd/imagecache/verify.go whole selects":                               "the step's context, which has the deadline of the node's state; a verification ends with the file, or with its caller",
	"rackd/netboot/dhcp/serve.go Serve receives":                             members,
	"rackd/netboot/dhcp/serve.go later selects":                              "the server's life: room comes with each reply that send writes",
	"rackd/netboot/dhcp/serve.go serve (*sync.WaitGroup).Wait":               "the probes' context, which serve ends before, and arpprobe.Wait",
	"rackd/netboot/dhcp/send.go send ranges":                                 life,
	"rackd/netboot/dhcp/serve6.go Serve (net.PacketConn).ReadFrom":           life,
	"rackd/netboot/dhcp/serve6.go Serve receives":                            members,
	"rackd/netboot/dhcp/serve.go serve (net.PacketConn).ReadFrom":            life,
	"rackd/netboot/dhcp/serve.go serve receives":                             members,
	"rackd/netboot/routeradv/routeradv.go Serve receives":                    members,
	"rackd/netboot/routeradv/routeradv.go Serve sends":                       room,
	"rackd/netboot/routeradv/routeradv.go listen selects":                    life,
	"rackd/netboot/tftp/tftp.go Serve (*sync.WaitGroup).Wait":                members,
	"rackd/netboot/tftp/tftp.go Serve (net.PacketConn).ReadFrom":             life,
	"rackd/strangers/listener.go Accept (net.Listener).Accept":               life,
	"rackd/view/follow.go Run (*errgroup.Group).Wait":                        members,
	"rackd/view/follow.go Run selects":                                       life,
	"rackd/view/follow.go untilProven selects":                               life,
	"rackd/view/view.go ConfigDrive sends":                                   room,
	"rackd/driver/idrac/store.go do (*http.Client).Do":                       "storeTime, of the request's context",
	"rackd/driver/ilo/ribcl/identity.go describe (*http.Client).Do":          "bmc.HTTP's limit of each request",
	"rackd/driver/ilo/ribcl/identity.go describe http.NewRequestWithContext": "bmc.HTTP's limit of each request",
	"rackd/driver/ilo/ribcl/ribcl.go run (*http.Client).Do":                  "bmc.HTTP's limit of each request",
	"rackd/driver/ilo/ribcl/ribcl.go run http.NewRequestWithContext":         "bmc.HTTP's limit of each request",
	"rackd/driver/redfish/session.go rootOf (*http.Client).Do":               "bmc.HTTP's limit of each request",
	"rackd/driver/redfish/session.go rootOf http.NewRequestWithContext":      "bmc.HTTP's limit of each request",
	"rackd/driver/bmc/ask.go exchange http.NewRequestWithContext":            "HTTPOptions.ConnectTimeout and AnswerTimeout, by which send bounds it",
	"rackd/driver/wol/dial.go Ready net.Dial":                                "nothing: it opens a UDP socket to an address",
	"rackd/bootmedium/loader.go biosImage (*exec.Cmd).Run":                   "the command's context, which ends after mkimageWithin",
	"agent/boot/rescue.go open (*net.ListenConfig).Listen":                   "nothing: it opens a local socket",
	"agent/rescue/doc.go findShell (*exec.Cmd).CombinedOutput":               "installing, of the context that the command is made with",
	"agent/rescue/session.go session selects":                                shellsLife,
	"agent/rescue/console.go login (*exec.Cmd).Run":                          shellsLife,
	"agent/rescue/session.go run (*exec.Cmd).Wait":                           shellsLife,
	"agent/rescue/session.go session receives":                               shellsLife,
	"agent/rescue/ssh.go ServeSSH (*sync.WaitGroup).Wait":                    members,
	"agent/rescue/ssh.go ServeSSH (net.Listener).Accept":                     life,
	"agent/rescue/ssh.go connection (*sync.WaitGroup).Wait":                  members,
	"agent/rescue/ssh.go connection ranges":                                  shellsLife,
	"agent/rescue/ssh.go connection receives":                                "nothing: it returns a place that the session has",
	"rackd/bmcevents/bmcevents.go Run (*sync.WaitGroup).Wait":                members,
	"rackd/driver/redfish/sse.go stream (*http.Client).Do":                   "streamLife, and the transport's times for a connection and for the header",
	"rackd/metrics/sensors.go Collect sends":                                 "the registry, which reads until it is told that all has come",
	"rackd/metrics/sensors.go Describe sends":                                "the registry, which reads until it is told that all has come",
	"rackd/periodic/runner.go Run (*errgroup.Group).Wait":                    members,
	"rackd/periodic/schedule.go run (*errgroup.Group).Wait":                  members,
	"central/console/session.go Run receives":                                members,
	"central/console/session.go Run sends":                                   room,
	"central/console/session.go typed (*rate.Limiter).WaitN":                 "a second: a message has maxMessage bytes",
	"central/console/session.go typed (*websocket.Conn).Read":                "Session.watch: a client that does not answer a ping is cut off, and a session without use ends",
	"rackd/console/held.go once receives":                                    "closeWithin, of the closing that runs already",
	"rackd/console/held.go write receives":                                   "nothing: it gives back the place that it has taken",
	"rackd/console/held.go pump (*rate.Limiter).WaitN":                       "a second: it waits for what one read has taken",
	"rackd/console/copier.go copyLogs (*rate.Limiter).WaitN":                 "a second: it waits for what one copy has taken",
	"rackd/console/copier.go lastCopy receives":                              "nothing: it gives back the place that it has taken",
	"rackd/console/copier.go lastCopies (*sync.WaitGroup).Wait":              members,
	"rackd/console/keeper.go Run (*sync.WaitGroup).Wait":                     members,
	"central/console/viewer.go pictures receives":                            "its context, which ends before: send asks by it",
	"central/console/viewer.go send selects":                                 "the session, which Session.watch ends",
	"central/console/viewer.go take selects":                                 "the session, which Session.watch ends; and send, which ends it after ViewerSilent without an answer",
	"rackd/console/viewer.go write receives":                                 "nothing: it gives back the place that it has taken",
	"rackd/console/viewer.go pump (*rate.Limiter).WaitN":                     "a second: it waits for what one read has taken",
	"rackd/console/viewer.go pump selects":                                   "the viewer's place, which lookAtViewers ends after ViewerSilent without a question",
	"rackd/driver/rfb/rfb.go Greeted sends":                                  room,
	"rackd/driver/fake/screen.go say (net.Conn).Write":                       "the viewer's end, which rackd/console closes when its context ends",
	"rackd/driver/fake/graphical.go Write (net.Conn).Write":                  "its context, whose end is the deadline of the connection",
	"rackd/driver/fake/graphical.go Read (net.Conn).Read":                    "viewed.Close, which rackd/console calls when its context ends",
	"rackd/driver/libvirt/display.go Write (net.Conn).Write":                 "line.send, which closes the connection when its caller's context ends",
	"rackd/driver/libvirt/display.go Read (net.Conn).Read":                   "Close, which rackd/console calls when its context ends; and line.watch by SSH",
	"rackd/driver/fake/console.go Read receives":                             "echo.Close, which rackd/console calls when its context ends",
	"rackd/driver/ipmi/console.go OpenConsole (*net.Dialer).DialContext":     "Options.Timeout (outbound.Dialer); it opens a UDP socket, and looks a name up",
	"rackd/driver/ipmi/lan/console.go Close (*sync.WaitGroup).Wait":          members,
	"rackd/driver/ipmi/lan/console.go Read selects":                          "the end of the console: KeepAlive and the tries find a BMC that is silent, and Close ends it",
	"rackd/driver/ipmi/lan/console.go answered sends":                        room,
	"rackd/driver/ipmi/lan/console.go ask (net.Conn).Write":                  "nothing: a datagram goes or is dropped",
	"rackd/driver/ipmi/lan/console.go keep receives":                         "the end of the console, which Close brings",
	"rackd/driver/ipmi/lan/console.go packet sends":                          room,
	"rackd/driver/ipmi/lan/console.go receive (net.Conn).Read":               "the end of the console, which closes the socket",
	"rackd/driver/ipmi/lan/console.go say (net.Conn).Write":                  "nothing: a datagram goes or is dropped",
}

// Every wait of the served programs has a bound that does not depend on the other side. The test proves
// it where a context with a deadline reaches the place on each way. Each other place is in the list, with its bound.
func TestWaitsHaveABound(t *testing.T) {
	found := load(t, exported(t, served...), "").find()
	if len(found) < 100 {
		t.Errorf("found only %d waits", len(found))
	}
	for place, why := range found {
		if waiting[place] == "" {
			t.Errorf("%s: %s. What bounds it when the other side is silent? Give it a deadline, or list it in waiting", place, why)
		}
	}
	for place := range waiting {
		if _, there := found[place]; !there {
			t.Errorf("%s is listed, and it is not there any more or has a deadline on each way", place)
		}
	}
}

// A wait is found in each of its forms, unless each way to it has a deadline.
func TestWaitsAreFound(t *testing.T) {
	const head = `package x
import ("context"; "net"; "net/http"; "os/exec"; "sync"; "time")
type dialer interface { call(ctx context.Context) }
type real struct{}
func dial(ctx context.Context) { new(net.Dialer).DialContext(ctx, "tcp", "a") }
func (real) call(ctx context.Context) { dial(ctx) }
var ( _ = http.StatusOK; _ = exec.ErrDot; _ sync.Mutex; _ time.Time )
func use(ctx context.Context, ch chan int, d dialer, wg *sync.WaitGroup) {
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	d.call(short)
`
	const dials, none = "x.go dial (*net.Dialer).DialContext", ""
	cases := []struct{ code, want string }{
		{"dial(short)", none},
		{"d.call(short)", none},
		{"dial(ctx)", dials},
		{"d.call(ctx)", dials},
		{"dial(context.Background())", dials},
		{"dial(context.WithoutCancel(short))", dials},
		{"more, end := context.WithCancel(short); defer end(); dial(more)", none},
		{"if ch == nil { ctx = short }; dial(ctx)", dials},
		{"f := dial; f(short)", dials},
		{"dial(short); <-ch", "x.go use receives"},
		{"dial(short); ch <- 1", "x.go use sends"},
		{"dial(short); for range ch {}", "x.go use ranges"},
		{"dial(short); select { case <-ch: }", "x.go use selects"},
		{"dial(short); select { case <-ch: case <-ctx.Done(): }", "x.go use selects"},
		{"dial(short); select { case <-ch: case <-short.Done(): }", none},
		{"dial(short); select { case <-ch: case <-time.After(time.Second): }", none},
		{"dial(short); select { case <-ch: default: }", none},
		{"dial(short); wg.Wait()", "x.go use (*sync.WaitGroup).Wait"},
		{"dial(short); exec.Command(`x`).Run()", "x.go use (*exec.Cmd).Run"},
		{"dial(short); http.Get(`x`)", "x.go use http.Get"},
		{"dial(short); http.NewRequestWithContext(ctx, ``, ``, nil)", "x.go use http.NewRequestWithContext"},
	}
	listed := exported(t, "net/http", "os/exec")
	for _, c := range cases {
		var got []string
		for place := range load(t, listed, head+c.code+"\n}").find() {
			got = append(got, place)
		}
		if c.want == none && len(got) > 0 || c.want != none && !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: found %q, want %q", c.code, got, c.want)
		}
	}
}
