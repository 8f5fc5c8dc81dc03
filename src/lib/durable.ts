/**
 * Every effect that outlives the process runs through `durable`, under a name. Crash tests enumerate the names from
 * the code and stop a process just before and just after each; a test finds no such effect outside it.
 */

export type DurableMoment = 'before' | 'after';
export type DurableObserver = (name: string, moment: DurableMoment) => void;

let observe: DurableObserver = () => {};

/** For crash tests: `observer` is called around every durable effect of this process from now on. */
export function observeDurableEffects(observer: DurableObserver): void {
  observe = observer;
}

/** Runs `effect`. `name` is constant text of the form `folder.effect`; one name may be used for one effect only. */
export function durable<T>(name: string, effect: () => T): T {
  observe(name, 'before');
  const result = effect();
  if (!(result instanceof Promise)) {
    observe(name, 'after');
    return result;
  }
  return result.then((value) => {
    observe(name, 'after');
    return value;
  }) as T;
}
