# What the Elixir side of the scenarios is made of. The module with their functions is added behind it, and all run in one node.

defmodule Worker do
  use GenServer

  def start_link(f), do: GenServer.start_link(__MODULE__, f)
  def start_link(x, y), do: start_link(fn -> {:ok, {x, y}} end)

  @impl true
  def init(f), do: f.()

  @impl true
  def handle_call(:get, _, s), do: {:reply, s, s}
end

defmodule Scenarios do
  # ---- running

  def main(table, names) do
    :logger.set_primary_config(:level, :none)
    Process.flag(:trap_exit, true)
    for name <- names, do: IO.puts("[\"#{name}\" #{edn(observe(table, name))}]")
    System.halt(0)
  end

  defp observe(table, name) do
    {pid, ref} = spawn_monitor(fn -> exit({:observed, apply(table, name, [])}) end)

    receive do
      {:DOWN, ^ref, :process, ^pid, {:observed, term}} -> term
      {:DOWN, ^ref, :process, ^pid, why} -> {:died, why}
    after
      30000 ->
        Process.exit(pid, :kill)
        :late
    end
  end

  # A term as data that Clojure reads: atoms are keywords, tuples and lists are vectors.
  defp edn(nil), do: "nil"
  defp edn(b) when is_boolean(b), do: to_string(b)
  defp edn(a) when is_atom(a), do: ":" <> String.replace(to_string(a), "_", "-")
  defp edn(n) when is_number(n), do: to_string(n)
  defp edn(t) when is_tuple(t), do: edn(Tuple.to_list(t))
  defp edn(l) when is_list(l), do: "[" <> Enum.map_join(l, " ", &edn/1) <> "]"
  defp edn(other), do: inspect(inspect(other))

  # ---- what scenarios share

  def reason_of(f) do
    {pid, ref} = spawn_monitor(f)

    receive do
      {:DOWN, ^ref, :process, ^pid, why} -> why
    end
  end

  def forever, do: Process.sleep(:infinity)

  # The reason of the call that f is, or its value.
  def failure(f) do
    try do
      {:value, f.()}
    catch
      :exit, {reason, _} -> {:exit, reason}
    end
  end

  def ended(pid, f) do
    ref = Process.monitor(pid)
    f.()

    receive do
      {:DOWN, ^ref, :process, _, why} -> why
    after
      20000 -> :late
    end
  end

  # ---- supervisors

  def dynamic(options \\ []) do
    Process.flag(:trap_exit, true)
    {:ok, s} = DynamicSupervisor.start_link([strategy: :one_for_one] ++ options)
    s
  end

  def scripted(f), do: {Worker, f}

  def active(s), do: DynamicSupervisor.count_children(s).active

  def pids(supervisor, s), do: for({_, pid, _, _} <- supervisor.which_children(s), do: pid)

  def end_child(supervisor, s) do
    [pid] = pids(supervisor, s)
    ended(pid, fn -> Process.exit(pid, :kill) end)
    settle(supervisor, s, pid)
  end

  defp settle(supervisor, s, pid) do
    if pid in pids(supervisor, s), do: settle(supervisor, s, pid)
  end

  def state_of(s) do
    if Process.alive?(s) do
      :up
    else
      receive do
        {:EXIT, ^s, why} -> why
      after
        20000 -> :late
      end
    end
  end

  def end_last(supervisor, s) do
    [pid] = pids(supervisor, s)
    ended(s, fn -> Process.exit(pid, :kill) end)
  end

  # ---- tasks

  # Waits until the process that has put itself at the key has ended.
  def after_end_of(table, key) do
    case :ets.lookup(table, key) do
      [{_, pid}] -> ended(pid, fn -> :ok end)
      [] -> after_end_of(table, key)
    end
  end
end
