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
mtype = { down, idle, telling, saving, acting };
mtype pc[N+1];
bit leaving[N+1];	/* the write under way is the runner's last */
bit held[N+1];		/* lease.Check passes as far as time goes */
bit cut[N+1];		/* ... but the bus has lost the key: no renewal will do */
byte seen[N+1];		/* how much of the other's ALIVE key its watch has shown */
Doc view[N+1];		/* what the watch on WORK has shown, own writes at once */
bit gone[N+1];		/* ... and that the bus has it no more: view is a memory */
bit fresh[N+1];		/* ... and it is the newest */
bit recalled[N+1];	/* ... with a checkpoint that is only remembered */
Doc job[N+1];		/* the runner's document */
bit based[N+1];		/* ... whose revision is the newest */
byte reported[N+1];	/* the end that this process has reported last */

/* central's rows. */
byte row = 1;		/* generation of the node and of its work */
bit open = 1;		/* its work has not ended */
bit sent;		/* a document went out, and no end of it is known */
byte observed;		/* epoch, of this generation */
bit keyed[3];		/* the key is still as a relay has read it */

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
byte losses;		/* that have happened */
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
	copy(view[i], job[i]); gone[i] = 0; fresh[i] = 1; recalled[i] = 0; based[i] = 1
}

inline drop(i) {
	forget(job[i]); based[i] = 0; pc[i] = idle; leaving[i] = 0
}

/* The ring, as i sees it. */
#define named(i)	(i == 1 || seen[i] % 2 == 0)

/* The lease under which the document was taken is over, as far as i has seen. */
#ifdef NO_SAME_DEATH
#define dead(i)		(seen[i] % 2 == 0)
#else
#define dead(i)		(view[i].tenure == 0 && seen[i] % 2 == 0 || view[i].tenure > 0 && seen[i] >= 2 * view[i].tenure)
#endif

/* That a key is not there is believed only when its holder's lease must be over too:
 * at once when the watch shows it go, after LeaseTTL when the bus lost the bucket. */
#if defined(NO_WAIT) || defined(NO_LEASE_MARGIN)
#define believed(i)	true
#else
#define believed(i)	(!cut[i] || !held[i])
#endif

#ifdef NO_OWNER
#define takeable(i)	(named(i))
#else
#define takeable(i)	(view[i].owner == i || named(i) && (view[i].owner == NOBODY || dead(i)))
#endif

/* The document is as central made it after a loss. */
#define anew	(bus.lost && bus.owner == NOBODY && bus.at == START)

#define report(i)	(64 * view[i].work + view[i].epoch)	/* stands for the event's id */

/* What the bus has lost is written again from memory by who is sure to remember it all. */
#ifdef NO_SURE_MEMORY
#define restorable(i)	true
#else
#define restorable(i)	(view[i].owner == i && view[i].tenure == tenure(i))
#endif

/* The work is over, and the bus says so too: not only this rackd's memory. */
#ifdef NO_WRITTEN_END
#define ended(i)	(view[i].over)
#else
#define ended(i)	(view[i].over && !recalled[i])
#endif

#ifdef NO_CAS
#define newest(b)	true
#else
#define newest(b)	(b)
#endif

#ifdef NO_SAME_LEASE
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

/* The epoch of what central writes again: above all that were, and all that a rackd can
 * have made of them. It grows with the time, here with the losses. */
#ifdef NO_EPOCH_JUMP
#define above(e)	(e)
#else
#define above(e)	((e) < JUMP * (1 + losses) -> JUMP * (1 + losses) : (e))
#endif

#ifdef NO_VOID
#define rewritten(e)	(above(e))
#else
#define rewritten(e)	(e)
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

/* runSteps: what comes next, from the checkpoint. */
inline proceed(i) {
	if
	:: job[i].over || job[i].at == SECOND_ENDED -> job[i].over = 1; pc[i] = saving; leaving[i] = 1	/* finish */
	:: job[i].at == FIRST_BEGUN -> pc[i] = acting		/* begun before: repeat it */
#ifdef NO_NEITHER
	:: job[i].at == SECOND_BEGUN -> pc[i] = acting
#else
	:: !job[i].over && (job[i].at == SECOND_BEGUN || job[i].at == FIRST_ENDED && job[i].lost) ->
		job[i].over = 1; pc[i] = saving; leaving[i] = 1	/* it may have run: fail */
#endif
	:: else ->
		if
		:: named(i) -> job[i].at++; pc[i] = saving
		:: else -> job[i].owner = NOBODY; job[i].tenure = 0; pc[i] = saving; leaving[i] = 1	/* release */
		fi
	fi
}

proctype Rackd(byte i) {
end:	do
	/* The lease: it lapses by the holder's own clock, then its key may expire. */
	:: d_step { held[i] && (lapses > 0 && busy || cut[i]) ->
		printf("rackd %d: its lease is over\n", i);
		held[i] = 0;
		if
		:: cut[i] -> cut[i] = 0
		:: else -> lapses--
		fi }
	:: d_step { up(i) && !held[i] && alive[i] % 2 == 1 ->
		printf("rackd %d renews its lease in time\n", i);
		held[i] = 1 }
	:: d_step { up(i) && alive[i] % 2 == 0 ->
		printf("rackd %d announces itself anew\n", i);
		alive[i]++; held[i] = 1; cut[i] = 0 }

	/* The watch on ALIVE. */
	:: d_step { up(i) && seen[i] < alive[other(i)] && believed(other(i)) ->
		seen[i]++;
		printf("rackd %d sees that rackd %d lives: %d\n", i, other(i), seen[i] % 2) }

	/* The watch on WORK. */
	:: d_step { up(i) && !fresh[i] ->
		printf("rackd %d sees work %d, epoch %d, owner %d\n", i, bus.work, bus.epoch, bus.owner);
		fresh[i] = 1;
		if
		:: bus.work == 0 && marker -> gone[i] = 1; recalled[i] = 0; forget(view[i])
		:: bus.work == 0 && !marker -> gone[i] = 1
		:: bus.work == view[i].work && anew && !view[i].lost ->
			/* remember: the new document begins where this rackd knows the work to stand */
			gone[i] = 0; recalled[i] = view[i].at != START;
			view[i].owner = NOBODY; view[i].tenure = 0; view[i].epoch = bus.epoch; view[i].lost = 1
		:: else -> gone[i] = 0; recalled[i] = 0; copy(view[i], bus)
		fi }

	/* reconcile: take the work */
	:: d_step { pc[i] == idle && held[i] && (!gone[i] || restorable(i)) && view[i].work != 0 && !view[i].over && takeable(i) && newest(fresh[i]) ->
		copy(job[i], view[i]); job[i].owner = i; job[i].tenure = tenure(i);
		if
		:: gone[i] -> job[i].epoch = job[i].epoch + 1 + JUMP; job[i].lost = 1
		:: else -> job[i].epoch++
		fi;
		printf("rackd %d takes work %d of rackd %d, epoch %d, checkpoint %d\n", i, job[i].work, view[i].owner, job[i].epoch, job[i].at);
		put(i); pc[i] = telling }
	/* remind: whom the ring names may not remember; and an end is written before it is reported */
	:: d_step { pc[i] == idle && held[i] && !gone[i] && recalled[i] && (!named(i) || view[i].over) && newest(fresh[i]) ->
		printf("rackd %d reminds: checkpoint %d, over %d\n", i, view[i].at, view[i].over);
		changed(); copy(bus, view[i]); fresh[i] = 1; recalled[i] = 0 }
	/* reconcile: report the end, by whoever brought it about */
	:: atomic { pc[i] == idle && held[i] && !gone[i] && ended(i) && named(i) && reported[i] != report(i) && nfull(events) ->
		printf("rackd %d reports the end of work %d, epoch %d\n", i, view[i].work, view[i].epoch);
		events!view[i].work, view[i].epoch, 1;
		told[view[i].work] = told[view[i].work] || view[i].epoch >= observed;	/* an older one does not count */
		reported[i] = report(i) }

	/* take: a new owner says so before it does anything */
	:: atomic { pc[i] == telling && nfull(events) -> events!job[i].work, job[i].epoch, 0; proceed(i) }
	/* attempt: the fence is checked right before the effect */
	:: d_step { pc[i] == acting ->
		if
		:: mayAct(i) -> act(i); job[i].at++; pc[i] = saving
		:: else -> printf("rackd %d is fenced\n", i); drop(i)
		fi }
	/* save: compare-and-set */
	:: d_step { pc[i] == saving && newest(based[i]) ->
		printf("rackd %d writes work %d, epoch %d, owner %d, checkpoint %d, over %d\n", i, job[i].work, job[i].epoch, job[i].owner, job[i].at, job[i].over);
		put(i);
		if
		:: leaving[i] -> drop(i)
		:: job[i].at % 2 == 1 -> pc[i] = acting
		:: else -> proceed(i)
		fi }
	:: d_step { pc[i] == saving && based[i] && unheard > 0 ->
		printf("rackd %d writes work %d, epoch %d, owner %d, checkpoint %d, over %d, but hears nothing\n", i, job[i].work, job[i].epoch, job[i].owner, job[i].at, job[i].over);
		unheard--; changed(); copy(bus, job[i]); marker = 0 }
	:: d_step { pc[i] == saving && !newest(based[i]) ->
		if
		:: wroteIt(i) -> based[i] = 1
		:: else -> printf("rackd %d has lost the work\n", i); drop(i)
		fi }

	/* kill -9 */
	:: d_step { up(i) && crashes > 0 && busy ->
		printf("rackd %d is killed\n", i);
		crashes--; drop(i); pc[i] = down;
		held[i] = 0; cut[i] = 0; seen[i] = 0; forget(view[i]); gone[i] = 0; fresh[i] = 0; recalled[i] = 0; reported[i] = 0 }
	/* and the next start, under the same name: it reads the buckets, then announces itself */
	:: d_step { pc[i] == down ->
		printf("rackd %d starts\n", i);
		pc[i] = idle;
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
		:: else ->
			printf("central takes in: work %d, epoch %d, end %d\n", w, e, last);
			observed = e;
			if
			:: last -> assert(!closed[w]); closed[w] = 1; open = 0; sent = 0
			:: else
			fi
		fi; w = 0; e = 0; last = 0 }
	od
}

#define unfit	(open && (bus.work < row || bus.epoch < observed) || !open && bus.work != 0)

/* Whoever has noticed the loss is fenced, and so is he whose lease is over. A relay
 * that has seen a key lost waits for that by the clock before it writes it again. */
#ifdef NO_SETTLE
#define settled	true
#else
#define settled	((!held[1] || fresh[1] || gone[1]) && (!held[2] || fresh[2] || gone[2]))
#endif

/* What was reported before the loss is in the rows. */
#ifdef NO_DRAIN
#define drained	true
#else
#define drained	(empty(events))
#endif

/* An owner that lives lets go by its own hand only. */
#ifdef NO_OWNER_KEPT
#define kept	false
#else
#define kept	true
#endif

#define lostKey(k)	(open && keyed[k] && (key.work == 0 && (sent || observed > 0) || key.work == row && key.epoch < observed))

/* central: rows become documents. */
proctype Relay(byte k) {
	Doc key; byte r, e; bit o, s;
end:	do
	:: unfit ->
#ifdef NO_KEY_FIRST
		d_step { r = row; o = open; s = sent; e = observed }
		d_step { copy(key, bus); keyed[k] = 1 }
#else
		d_step { copy(key, bus); keyed[k] = 1 }
		if
		:: d_step { !lostKey(k) -> r = row; o = open; s = sent; e = observed }
		:: d_step { lostKey(k) && settled && drained ->
#ifndef NO_VOID
			observed = (above(observed));
#endif
			r = row; o = open; s = sent; e = observed }
		fi;
#endif
		d_step {
			if
			:: keyed[k] && o && key.work == 0 && !s && e == 0 -> /* send out */
				skip
			:: keyed[k] && o && key.work == 0 && (s || e > 0) -> /* repair */
				key.epoch = rewritten(e); key.lost = 1
			:: keyed[k] && o && key.work != 0 && key.work < r -> /* supersede */
				key.epoch++; key.at = START;
				if
				:: key.over || !kept -> key.owner = NOBODY; key.tenure = 0
				:: else
				fi;
				key.over = 0; key.lost = 0
			:: keyed[k] && o && key.work == r && key.epoch < e -> /* lift an older copy */
				key.epoch = rewritten(e); key.lost = 1
			:: keyed[k] && !o && key.work != 0 && key.work <= r -> /* purge */
				printf("central purges work %d\n", key.work);
				changed(); forget(bus); marker = 1; keyed[k] = 0; forget(key)
			:: else -> keyed[k] = 0; forget(key)
			fi;
			if
			:: keyed[k] ->
				printf("central writes work %d, epoch %d, owner %d, lost %d\n", r, key.epoch, key.owner, key.lost);
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
	:: d_step { requests > 0 && row < WORKS ->
		printf("a request: work %d\n", row + 1);
		requests--; row++; open = 1; observed = 0 }
	od
}

inline loseWork() {
	printf("the bus loses WORK\n");
	losses++; changed(); forget(bus); marker = 0
}

inline loseEvents() {
	printf("the bus loses EVENTS\n");
	do
	:: nempty(events) -> events?_, _, _
	:: empty(events) -> break
	od;
	told[row] = 0;
#ifndef NO_REPORT_AGAIN
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

/* Which scenarios are looked at, as bits: -DSCENARIOS=8 is the third alone. */
#ifndef SCENARIOS
#define SCENARIOS	32766
#endif
#define chosen(n)	(SCENARIOS >> n & 1)

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
