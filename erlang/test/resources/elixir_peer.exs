# The side of Elixir in the tests of magnetar-erlang: evaluates the lines of its standard input, and prints each value.
defmodule Order do
  defstruct id: 0, items: []
end

# A server that counts what is on a shelf.
defmodule Shelf do
  use GenServer

  def start(count), do: GenServer.start(__MODULE__, count, name: __MODULE__)
  def start_link(count), do: GenServer.start_link(__MODULE__, count)

  @impl true
  def init(count), do: {:ok, count}

  @impl true
  def handle_call({:take, n}, _from, count), do: {:reply, {:ok, count - n}, count - n}
  def handle_call({:echo, x}, _from, count), do: {:reply, x, count}
  def handle_call({:raise, text}, _from, _count), do: raise(ArgumentError, text)
  def handle_call({:stop, why}, _from, count), do: {:stop, why, count}

  @impl true
  def handle_cast({:add, n}, count), do: {:noreply, count + n}
end

# What a node calls by name: it returns, fails, exits or throws.
defmodule Work do
  def double(n), do: 2 * n
  def fail(text), do: raise(ArgumentError, text)
  def leave(why), do: exit(why)
  def toss(x), do: throw(x)
  def tell(to, x), do: send(to, x)
  def wait, do: Process.sleep(:infinity)
end

defmodule Peer do
  def main do
    IO.puts("ready")
    loop([])
  end

  defp loop(bindings) do
    case IO.gets("") do
      :eof -> System.halt(0)
      line -> line |> evaluate(bindings) |> loop()
    end
  end

  defp evaluate(line, bindings) do
    {value, bindings} = Code.eval_string(line, bindings)
    IO.puts("= " <> inspect(value, limit: :infinity, printable_limit: :infinity, width: :infinity))
    bindings
  catch
    kind, reason ->
      IO.puts("! " <> inspect(Exception.format_banner(kind, reason, __STACKTRACE__)))
      bindings
  end
end

Peer.main()
