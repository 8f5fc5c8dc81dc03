/**
 * Loaded into every measured process before its own code (`--import`): writes what the process used into the file
 * named by BENCH_USAGE_FILE when it ends. JavaScript, because to strip types takes longer than to start Node.
 */

import { readFileSync, writeFileSync } from 'node:fs';

const { BENCH_USAGE_FILE: path = '' } = process.env;

process.on('exit', () => {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
  const usage = { cpuMicroseconds: userCPUTime + systemCPUTime, peakKilobytes: ownPeakKilobytes() ?? maxRSS };
  writeFileSync(path, JSON.stringify(usage));
});

/** On Linux `maxRSS` starts at the peak of the process that started this one, `VmHWM` at nothing. */
function ownPeakKilobytes() {
  try {
    const [, peak] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
    return peak === undefined ? null : Number(peak);
  } catch {
    return null;
  }
}
