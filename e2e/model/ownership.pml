/*
 * The ownership protocol of one node's work: who may act on the machine, and how that
 * changes hands. README.md says which code makes which move, and what is left out.
 *
 * Every move uses up something of which there is little, so the model has no cycles
 * (the test has spin look for one). Each run therefore ends, and "every accepted work
 * ends" becomes: where a run ends, the work has ended.
 */

#define N	2	/* rackds 1..N; the ring names the first that lives */
#define WORKS	2	/* pieces of work, the second superseding or following the first */
#define NOBODY	0
#define JUMP	16	/* stands for 1<<16 */

/* The WORK document. Instead of revisions the model keeps, for each that has read it,
 * whether what it read is the newest: that is all that compare-and-set asks. */
typedef Doc {
	byte work;	/* its generation; 0: there is no document */
	byte owner;
	byte tenure;	/* of the owner's lease when it took the work */
	byte epoch;
	byte at;	/* checkpoint: see below */
	bit over;	/* Result is set */
	bit lost	/* written again by central after the bus had lost it */
};

/* Two steps: one that may be repeated, one marked as neither repeatable nor
 * re-attachable. Odd checkpoints: begun, the effect may or may not have happened. */
#define START		0
#define FIRST_BEGUN	1
#define FIRST_ENDED	2
#define SECOND_BEGUN	3
#define SECOND_ENDED	4

/* The bus. */
Doc bus;
bit marker;		/* the key was purged, not lost: its watchers are told */
byte alive[N+1];	/* changes of the ALIVE key so far; odd: it is there */
chan events = [2] of { byte, byte, bit };	/* work, epoch, is it the end */

/* rackd. */
mtype = { down, idle, telling, going, saving, acting };
mtype pc[N+1], then[N+1];
bit held[N+1];		/* lease.Check passes as far as time goes */
bit cut[N+1];		/* ... but the bus has lost the key: no renewal will do */
byte seen[N+1];		/* how much of the other's ALIVE key its watch has shown */
Doc view[N+1];		/* what the watch on WORK has shown, own writes at once */
bit gone[N+1];		/* ... and that the bus has it no more: view is a memory */
bit fresh[N+1];		/* ... and it is the newest */
Doc job[N+1];		/* the runner's document */
bit based[N+1];		/* ... whose revision is the newest */
byte reported[N+1];	/* the work whose end this process has reported */

/* central's rows. */
byte row = 1;		/* generation of the node and of its work */
bit open = 1;		/* its work has not ended */
bit sent;		/* a document went out, and no end of it is known */
byte observed;		/* epoch, of this generation */
bit keyed[3];	/* the key is still as a relay has read it */

/* What has happened, for what must hold. */
byte actedWork, actedEpoch, actedBy;	/* whoever acted on the machine last */
bit ran[WORKS+1];	/* the second step, by work */
bit told[WORKS+1];	/* the end was reported, by work */
bit closed[WORKS+1];	/* and central has recorded it */

/* What may go wrong in this run; init chooses. */
byte lapses;		/* renewals of a lease that come too late */
byte crashes;		/* rackds killed; each may come back or not */
byte unheard;		/* writes of a rackd whose answer is lost */
byte wipes;		/* losses of what the bus keeps ... */
byte loses;		/* ... WORK, EVENTS, ALIVE, all of them */
byte requests;		/* that supersede the work or follow it */
byte relays = 1;	/* replicas of central that publish */

#define WORK	1
#define EVENTS	2
#define ALIVE	4
#define ALL	8

/* While there is something to go wrong. */
#define busy	(open || bus.work != 0)

#define other(i)	(3 - (i))
#define tenure(i)	((alive[i] + 1) / 2)
#define up(i)		(pc[i] != down && pc[i] != 0)

inline copy(to, from) {
	to.work = from.work; to.owner = from.owner; to.tenure = from.tenure; to.epoch = from.epoch;
	to.at = from.at; to.over = from.over; to.lost = from.lost
}

inline forget(d) {
	d.work = 0; d.owner = 0; d.tenure = 0; d.epoch = 0; d.at = 0; d.over = 0; d.lost = 0
}

/* The key has changed: what anybody has read of it is old. */
inline changed() {
	fresh[1] = 0; fresh[2] = 0; based[1] = 0; based[2] = 0; keyed[1] = 0; keyed[2] = 0
}

/* i writes its runner's document; its view shows it at once. */
inline put(i) {
	changed(); copy(bus, job[i]); marker = 0;
	copy(view[i], job[i]); gone[i] = 0; fresh[i] = 1; based[i] = 1
}

inline drop(i) {
	forget(job[i]); based[i] = 0; pc[i] = idle; then[i] = 0
}

/* The ring, as i sees it. */
#define named(i)	(i == 1 || seen[i] % 2 == 0)

/* The lease under which the document was taken is over, as far as i has seen. */
#ifdef NO_TENURE
#define dead(i)		(seen[i] % 2 == 0)
#else
#define dead(i)		(seen[i] >= 2 * view[i].tenure)
#endif

/* That a key is not there is believed only when its holder's lease must be over too:
 * at once when the watch shows it go, after LeaseTTL when the bus lost the bucket. */
#if defined(NO_WAIT) || defined(NO_LEASE_MARGIN)
#define believed(i)	true
#else
#define believed(i)	(!cut[i] || !held[i])
#endif

#ifdef NO_OWNER
#define takeable(i)	true
#else
#define takeable(i)	(view[i].owner == NOBODY || view[i].owner == i || dead(i))
#endif

/* The work is over, and the bus says so too: not only this rackd's memory. */
#define ended(i)	(view[i].over && !(view[i].lost && view[i].owner == NOBODY))
#define report(i)	(64 * view[i].work + view[i].epoch)

#ifdef NO_CAS
#define newest(b)	true
#else
#define newest(b)	(b)
#endif

#ifdef NO_TERM
#define sameLease(i)	true
#else
#define sameLease(i)	(job[i].tenure == tenure(i))
#endif

#ifdef NO_EPOCH_CHECK
#define sameEpoch(i)	true
#else
#define sameEpoch(i)	(!gone[i] && view[i].work == job[i].work && view[i].epoch == job[i].epoch)
#endif

#define mayAct(i)	(held[i] && sameLease(i) && sameEpoch(i))

/* The bus holds a write of this runner that it was never told of. */
#define wroteIt(i)	(fresh[i] && !gone[i] && view[i].work == job[i].work && view[i].owner == i && view[i].epoch == job[i].epoch)

#ifdef NO_RELEASE
#define keeps	true
#else
#define keeps	false
#endif

/* A side effect on the machine: a write to its BMC, a command to its agent. */
inline act(i) {
	printf("rackd %d acts: work %d, epoch %d, step %d\n", i, job[i].work, job[i].epoch, job[i].at / 2 + 1);
	assert(job[i].work >= actedWork);				/* no zombie acts for older work, */
	assert(job[i].work > actedWork || job[i].epoch >= actedEpoch);	/* nor in an older epoch, */
	assert(job[i].work > actedWork || job[i].epoch > actedEpoch || actedBy == i);	/* nor two in one */
	assert(!told[job[i].work] && !closed[job[i].work]);		/* nor anybody after the end */
	actedWork = job[i].work; actedEpoch = job[i].epoch; actedBy = i;
	if
	:: job[i].at == SECOND_BEGUN -> assert(!ran[job[i].work]); ran[job[i].work] = 1
	:: else
	fi
}

proctype Rackd(byte i) {
end:	do
	/* The lease: it lapses by the holder's own clock, then its key may expire. */
	:: d_step { held[i] && (lapses > 0 && busy || cut[i]) -> printf("rackd %d: its lease is over\n", i); held[i] = 0; if :: cut[i] -> cut[i] = 0 :: else -> lapses-- fi }
	:: d_step { up(i) && !held[i] && alive[i] % 2 == 1 -> printf("rackd %d renews its lease in time\n", i); held[i] = 1 }
	:: d_step { up(i) && alive[i] % 2 == 0 -> printf("rackd %d announces itself anew\n", i); alive[i]++; held[i] = 1; cut[i] = 0 }

	/* The watch on ALIVE. */
	:: d_step { up(i) && seen[i] < alive[other(i)] && believed(other(i)) ->
		seen[i]++; printf("rackd %d sees: rackd %d is there: %d\n", i, other(i), seen[i] % 2) }

	/* The watch on WORK. */
	:: d_step { up(i) && !fresh[i] -> fresh[i] = 1;
		printf("rackd %d sees work %d, epoch %d, owner %d\n", i, bus.work, bus.epoch, bus.owner);
		if
		:: bus.work == 0 -> gone[i] = 1; if :: marker -> forget(view[i]) :: else fi
		:: bus.work == view[i].work && bus.lost && bus.owner == NOBODY && bus.at == START && !view[i].lost ->
			/* remember: the new document begins where this rackd knows the work to stand */
			gone[i] = 0; view[i].owner = NOBODY; view[i].tenure = 0; view[i].epoch = bus.epoch; view[i].lost = 1
		:: else -> gone[i] = 0; copy(view[i], bus)
		fi }

	/* reconcile: take the work */
	:: d_step { pc[i] == idle && held[i] && !gone[i] && view[i].work != 0 && !ended(i) && named(i) && takeable(i) && newest(fresh[i]) ->
		copy(job[i], view[i]); job[i].owner = i; job[i].tenure = tenure(i); job[i].epoch++;
		printf("rackd %d takes work %d of rackd %d, epoch %d, checkpoint %d\n", i, job[i].work, view[i].owner, job[i].epoch, job[i].at);
		put(i); pc[i] = telling }
#ifndef NO_RELEASE
	/* reconcile: the ring names another, who cannot take what is ours */
	:: d_step { pc[i] == idle && held[i] && !gone[i] && view[i].work != 0 && !view[i].over && !named(i) && view[i].owner == i && fresh[i] ->
		printf("rackd %d lets go of work %d\n", i, view[i].work);
		copy(job[i], view[i]); job[i].owner = NOBODY; job[i].tenure = 0; put(i); drop(i) }
#endif
	/* reconcile: report the end, by whoever brought it about */
	:: atomic { pc[i] == idle && held[i] && !gone[i] && ended(i) && named(i) && reported[i] != report(i) && nfull(events) ->
		printf("rackd %d reports the end of work %d, epoch %d\n", i, view[i].work, view[i].epoch);
		events!view[i].work, view[i].epoch, 1; told[view[i].work] = told[view[i].work] || view[i].epoch >= observed; reported[i] = report(i) }

	/* take: a new owner says so before it does anything */
	:: atomic { pc[i] == telling && nfull(events) -> events!job[i].work, job[i].epoch, 0; pc[i] = going }
	/* runSteps: go on from the checkpoint */
	:: d_step { pc[i] == going ->
		if
		:: job[i].over || job[i].at == SECOND_ENDED -> job[i].over = 1; pc[i] = saving; then[i] = idle	/* finish */
		:: job[i].at == FIRST_BEGUN -> pc[i] = acting			/* begun by another: repeat it */
#ifdef REPEAT_NEITHER
		:: job[i].at == SECOND_BEGUN -> pc[i] = acting
#else
		:: job[i].at == SECOND_BEGUN || job[i].at == FIRST_ENDED && job[i].lost && !job[i].over ->
			job[i].over = 1; pc[i] = saving; then[i] = idle		/* it may have run: fail */
#endif
		:: else ->
			if
			:: named(i) || keeps -> job[i].at++; pc[i] = saving; then[i] = acting
			:: else -> job[i].owner = NOBODY; job[i].tenure = 0; pc[i] = saving; then[i] = idle	/* release */
			fi
		fi }
	/* attempt: the fence is checked right before the effect */
	:: d_step { pc[i] == acting ->
		if
		:: mayAct(i) -> act(i); job[i].at++; pc[i] = saving; then[i] = going
		:: else -> printf("rackd %d is fenced\n", i); drop(i)
		fi }
	/* save: compare-and-set */
	:: d_step { pc[i] == saving && newest(based[i]) ->
		printf("rackd %d writes work %d, epoch %d, owner %d, checkpoint %d, over %d\n", i, job[i].work, job[i].epoch, job[i].owner, job[i].at, job[i].over);
		put(i); pc[i] = then[i]; if :: pc[i] == idle -> drop(i) :: else fi }
	:: d_step { pc[i] == saving && based[i] && unheard > 0 -> unheard--;
		printf("rackd %d writes work %d, epoch %d, owner %d, checkpoint %d, over %d, but hears nothing\n", i, job[i].work, job[i].epoch, job[i].owner, job[i].at, job[i].over);
		changed(); copy(bus, job[i]); marker = 0 }
	:: d_step { pc[i] == saving && !newest(based[i]) -> if :: wroteIt(i) -> based[i] = 1 :: else -> printf("rackd %d has lost the work\n", i); drop(i) fi }

	/* kill -9 */
	:: d_step { up(i) && crashes > 0 && busy -> crashes--; printf("rackd %d is killed\n", i); drop(i); pc[i] = down;
		held[i] = 0; cut[i] = 0; seen[i] = 0; forget(view[i]); gone[i] = 0; fresh[i] = 0; reported[i] = 0 }
	/* and the next start, under the same name: it reads the buckets, then announces itself */
	:: d_step { pc[i] == down -> printf("rackd %d starts\n", i); pc[i] = idle;
		copy(view[i], bus); gone[i] = bus.work == 0; fresh[i] = 1;
		seen[i] = alive[other(i)] - (cut[other(i)] && held[other(i)]);
		alive[i] = alive[i] + 1 + alive[i] % 2; held[i] = 1 }
	:: atomic { pc[i] == down && up(other(i)) -> pc[i] = 0; break }	/* or none */
	od
}

/* central: what happened becomes rows. */
active proctype Ingest() {
	byte w, e; bit last;
end:	do
	:: atomic { events?w, e, last ->
		if
		:: w != row || !open || e < observed	/* closed_work, old_generation, old_epoch */
		:: else -> printf("central takes in: work %d, epoch %d, end %d\n", w, e, last); observed = e;
			if
			:: last -> assert(!closed[w]); closed[w] = 1; open = 0; sent = 0
			:: else
			fi
		fi; w = 0; e = 0; last = 0 }
	od
}

#ifdef NO_LIFT
#define unfit	(open && bus.work < row || !open && bus.work != 0 && (bus.work < row || bus.over))
#else
#define unfit	(open && (bus.work < row || bus.epoch < observed) || !open && bus.work != 0 && (bus.work < row || bus.over))
#endif

/* Nobody acts any more on what the bus has lost: each has seen that it is gone, or
 * its lease is over. A relay waits for it by the clock. */
#define settled	((!held[1] || fresh[1] || gone[1]) && (!held[2] || fresh[2] || gone[2]))

#ifdef NO_SETTLE
#define waited	true
#else
#define waited	settled
#endif

#ifdef NO_DRAIN
#define drained	true
#else
#define drained	(empty(events))
#endif

/* central: rows become documents. */
proctype Relay(byte k) {
	Doc key; byte r, e; bit o, s;
end:	do
	:: unfit ->
#ifdef ROW_FIRST
		d_step { r = row; o = open; s = sent; e = observed }
		d_step { copy(key, bus); keyed[k] = 1 }
#else
		d_step { copy(key, bus); keyed[k] = 1 }
		if
		:: d_step { key.work != 0 || !sent || !open || !keyed[k] -> r = row; o = open; s = sent; e = observed }
		/* The key is lost: a new one comes when all that went before is settled, and
		 * the rows say first that the epochs before do not count any more. */
		:: d_step { key.work == 0 && sent && open && keyed[k] && waited && drained ->
#ifndef NO_EPOCH_JUMP
			observed = observed + JUMP;
#endif
			r = row; o = open; s = sent; e = observed }
		fi;
#endif
		d_step {
			if
			:: keyed[k] && o && key.work == 0 -> /* create */
				key.epoch = (s -> e : 0); key.lost = s
			:: keyed[k] && o && key.work != 0 && key.work < r -> /* supersede */
				key.epoch++; key.at = START;
#ifndef NO_OWNER_KEPT
				if
				:: key.over -> key.owner = NOBODY; key.tenure = 0
				:: else
				fi;
#else
				key.owner = NOBODY; key.tenure = 0;
#endif
				key.over = 0; key.lost = key.lost && key.owner == NOBODY
			:: keyed[k] && o && key.work == r && key.epoch < e -> /* lift */
				key.epoch = e
			:: keyed[k] && !o && key.work != 0 && (key.work < r || key.over) -> /* purge */
				printf("central purges work %d\n", key.work);
				changed(); forget(bus); marker = 1; keyed[k] = 0; forget(key)
			:: else -> keyed[k] = 0; forget(key)
			fi;
			if
			:: keyed[k] -> printf("central writes work %d, epoch %d, owner %d, lost %d\n", r, key.epoch, key.owner, key.lost);
				key.work = r; changed(); copy(bus, key); marker = 0; sent = 1; forget(key)
			:: else
			fi;
			r = 0; o = 0; s = 0; e = 0
		}
	od
}

/* An operator asks for something else, while the work is open or after it. */
active proctype API() {
end:	do
	:: d_step { requests > 0 && row < WORKS -> requests--; printf("a request: work %d\n", row + 1); row++; open = 1; observed = 0 }
	od
}

inline loseWork() {
	printf("the bus loses WORK\n");
	changed(); forget(bus); marker = 0
}

inline loseEvents() {
	printf("the bus loses EVENTS\n");
	do
	:: nempty(events) -> events?_, _, _
	:: empty(events) -> break
	od;
	told[row] = 0;
#ifndef REPORT_ONCE
	reported[1] = 0; reported[2] = 0	/* an end is reported again from time to time */
#endif
}

inline loseAlive(i) {
	if
	:: alive[i] % 2 == 1 -> alive[i]++; cut[i] = held[i]
	:: else
	fi
}

/* The bus: keys expire. And it loses data: no marker is left and no watcher is told. */
active proctype Bus() {
end:	do
	:: d_step { alive[1] % 2 == 1 && !held[1] -> printf("the key of rackd 1 expires\n"); alive[1]++ }
	:: d_step { alive[2] % 2 == 1 && !held[2] -> printf("the key of rackd 2 expires\n"); alive[2]++ }
#ifdef NO_LEASE_MARGIN
	:: d_step { alive[1] % 2 == 1 && held[1] && lapses > 0 -> lapses--; alive[1]++; cut[1] = 1 }
	:: d_step { alive[2] % 2 == 1 && held[2] && lapses > 0 -> lapses--; alive[2]++; cut[2] = 1 }
#endif
	:: d_step { wipes > 0 && loses & WORK && bus.work != 0 -> wipes--; loseWork() }
	:: d_step { wipes > 0 && loses & EVENTS && nempty(events) -> wipes--; loseEvents() }
	:: d_step { wipes > 0 && loses & ALIVE && busy -> wipes--; printf("the bus loses ALIVE\n"); loseAlive(1); loseAlive(2) }
	:: d_step { wipes > 0 && loses & ALL && bus.work != 0 -> wipes--; loseWork(); loseEvents(); loseAlive(1); loseAlive(2) }
	od
}

/* -DSCENARIO=3 chooses the third alone. */
#ifndef SCENARIO
#define chosen(n)	true
#else
#define chosen(n)	(SCENARIO == n)
#endif

init { atomic {
	pc[1] = idle; alive[1] = 1; held[1] = 1; seen[2] = 1; fresh[1] = 1;
	pc[2] = idle; alive[2] = 1; held[2] = 1; seen[1] = 1; fresh[2] = 1;
	if
	:: chosen(1) -> lapses = 2
	:: chosen(2) -> lapses = 1; crashes = 1
	:: chosen(3) -> lapses = 1; requests = 1
	:: chosen(4) -> lapses = 1; unheard = 1
	:: chosen(5) -> crashes = 1; requests = 1
	:: chosen(6) -> crashes = 1; unheard = 1
	:: chosen(7) -> requests = 1; unheard = 1
	:: chosen(8) -> requests = 1; relays = 2
	:: chosen(9) -> wipes = 1; loses = WORK; lapses = 1
	:: chosen(10) -> wipes = 1; loses = WORK; crashes = 1
	:: chosen(11) -> wipes = 1; loses = WORK; relays = 2
	:: chosen(12) -> wipes = 1; loses = EVENTS; lapses = 1
	:: chosen(13) -> wipes = 1; loses = ALIVE
	:: chosen(14) -> wipes = 1; loses = ALL
	fi;
	run Rackd(1); run Rackd(2); run Relay(1);
	if
	:: relays == 2 -> run Relay(2)
	:: else
	fi
} }

/* Where nothing moves any more, every accepted work has ended and its key is gone. */
active proctype End() {
end:	timeout -> assert(!open && bus.work == 0)
}
