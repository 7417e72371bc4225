// The workloads of the bench as services of Restate: started by bench/peer.py with a port.
import * as restate from "@restatedev/restate-sdk";

const nothing = async () => ({ ok: true });

// Three steps that do nothing, each durable; and a call that is kept and not made.
const steps = restate.service({
  name: "steps",
  handlers: {
    run: async (ctx) => {
      for (const name of ["one", "two", "three"]) await ctx.run(name, nothing);
      return { ok: true };
    },
    take: async () => ({ ok: true }),
  },
});

// A workflow that waits for one event.
const parked = restate.workflow({
  name: "parked",
  handlers: {
    run: async (ctx) => ctx.promise("bell"),
    ring: async (ctx, told) => {
      await ctx.promise("bell").resolve(told);
    },
  },
});

restate.serve({ services: [steps, parked], port: Number(process.argv[2]) });
