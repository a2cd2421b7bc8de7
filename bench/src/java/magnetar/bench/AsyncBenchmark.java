package magnetar.bench;

import clojure.java.api.Clojure;
import clojure.lang.IFn;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/**
 * One workload of one library, run by JMH through the Clojure var that holds it.
 *
 * <p>A workload is a function of {@code n} that does {@code n} operations and returns how many it did. The time of
 * each invocation is a sample, and the runner reads their median: on a shared machine a neighbour's time slice falls into some
 * invocations, and would be spread over all by a mean.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.SampleTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class AsyncBenchmark {

  /** The last part of the namespace {@code magnetar.bench.workload.*} that holds the workloads of a library. */
  @Param("magnetar")
  public String library;

  /** The name of the workload's function. */
  @Param("ping-pong-go")
  public String workload;

  /** Operations per invocation. */
  @Param("1000")
  public long n;

  private IFn operations;

  /** Loads the library and finds the workload; fails when there is no such function. */
  @Setup
  public void load() {
    String namespace = "magnetar.bench.workload." + library;
    Clojure.var("clojure.core", "require").invoke(Clojure.read(namespace));
    operations = (IFn) Clojure.var(namespace, workload);
  }

  /** Runs the workload once; fails when it did not do all of its operations. */
  @Benchmark
  public long run() {
    long done = ((Number) operations.invoke(n)).longValue();
    if (done != n) {
      throw new IllegalStateException(workload + " of " + library + " did " + done + " operations instead of " + n);
    }
    return done;
  }
}
