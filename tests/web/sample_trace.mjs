// A small trace made of arithmetic: three steps of a two-layer model on one GPU, with memory and call stacks.

const layers = ["aten::linear", "aten::relu", "aten::linear", "aten::mse_loss"];

function op(name, ts, dur, id, more = {}) {
  return { ph: "X", cat: "cpu_op", name, pid: 1, tid: 1, ts, dur, args: { "External id": id, "Input Dims": [[32, 64]], ...more } };
}

export function sampleTrace(steps = 3) {
  const events = [];
  let id = 1;
  let allocated = 1 << 20;
  for (let step = 0; step < steps; ++step) {
    const begin = 1000 + step * 2000;
    events.push({ ph: "X", cat: "user_annotation", name: `ProfilerStep#${step + 4}`, pid: 1, tid: 1, ts: begin, dur: 1900, args: {} });
    events.push(op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin + 10, 240, id++));
    layers.forEach((name, k) => {
      const ts = begin + 300 + k * 300;
      const stack = name === "aten::linear" ? { "Call stack": "model.py(12): forward;train.py(40): step;train.py(88): <module>" } : {};
      events.push(op(name, ts, 200, id, stack));
      events.push({ ph: "X", cat: "cuda_runtime", name: "cudaLaunchKernel", pid: 1, tid: 1, ts: ts + 50, dur: 12, args: { "External id": id, correlation: id } });
      events.push({
        ph: "X", cat: "kernel", name: k % 2 === 0 ? "sm80_xmma_gemm_f16" : `elementwise<${name}>`, pid: 0, tid: 7, ts: ts + 90, dur: 100 + 40 * k,
        args: { "External id": id, correlation: id, device: 0, stream: 7, grid: [8, 1, 1], block: [128, 1, 1], "registers per thread": 32, "shared memory": 0, "blocks per SM": 0.5, "est. achieved occupancy %": 40 },
      });
      allocated += 4096;
      events.push({ ph: "i", s: "t", name: "[memory]", pid: 1, tid: 1, ts: ts + 20, args: { "Device Type": 1, "Device Id": 0, Addr: 4096 * id, Bytes: 4096, "Total Allocated": allocated, "Total Reserved": 2 << 20 } });
      ++id;
    });
  }
  for (let seq = 0; seq < 2; ++seq)
    events.push({ ph: "X", cat: "kernel", name: "ncclDevKernel_AllReduce", pid: 0, tid: 9, ts: 1200 + seq * 2000, dur: 40 + steps, args: { device: 0, stream: 9, "Collective name": "allreduce", "Process Group Name": "0", "Process Group Ranks": "[0, 1]", Seq: seq, "Group size": 2, dtype: "Float", "In msg nelems": 1024, "Out msg nelems": 1024 } });
  return {
    schemaVersion: 1,
    deviceProperties: [{ id: 0, name: "Test <GPU>", totalGlobalMem: 16 * 2 ** 30, computeMajor: 8, computeMinor: 0, numSms: 108 }],
    traceEvents: events,
  };
}
