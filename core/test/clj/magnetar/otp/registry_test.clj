(ns magnetar.otp.registry-test
  "Scenarios of registries and agents, as in Elixir."
  (:require
   [magnetar.actor :as actor :refer [! exit receive self]]
   [magnetar.agent :as agent]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]
   [magnetar.otp.servers :as servers]
   [magnetar.registry :as registry]))

(set! *warn-on-reflection* true)

(defn- registered
  "A process that registers itself, and what it was told, as [pid answer]."
  [registry key]
  (let [me (self)
        pid (actor/spawn (fn []
                           (! me [:answer (registry/register registry key)])
                           (receive ::never nil)))]
    [pid (receive [:answer answer] answer)]))

(scenario RGY-01 "a key that is unique belongs to the first who registers it"
  :expect [:ok :already-registered true]
  :ours (do
          (registry/start-link {:keys :unique :name :rgy01})
          (let [[first-pid [first-word]] (registered :rgy01 :k)
                [_ [_ [why holder]]] (registered :rgy01 :k)]
            [first-word why (= holder first-pid)]))
  :elixir "{:ok, _} = Registry.start_link(keys: :unique, name: RGY01)
    me = self()
    register = fn -> pid = spawn(fn -> send(me, {:answer, Registry.register(RGY01, :k, nil)}); forever() end)
                     receive do {:answer, answer} -> {pid, answer} end end
    {first, {one, _}} = register.()
    {_, {:error, {two, holder}}} = register.()
    {one, two, holder == first}")

(scenario RGY-02 "the entries of a process that has died are gone"
  :expect [1 []]
  :ours (do
          (registry/start-link {:keys :duplicate :name :rgy02})
          (let [[pid] (registered :rgy02 :k)
                before (count (registry/lookup :rgy02 :k))]
            (servers/reason-of-end pid #(exit pid :kill))
            [before (registry/lookup :rgy02 :k)]))
  :elixir "{:ok, _} = Registry.start_link(keys: :unique, name: RGY02)
    me = self()
    pid = spawn(fn -> {:ok, _} = Registry.register(RGY02, :k, nil); send(me, :registered); forever() end)
    receive do :registered -> :ok end
    before = length(Registry.lookup(RGY02, :k))
    ended(pid, fn -> Process.exit(pid, :kill) end)
    {before, Registry.lookup(RGY02, :k)}")

(scenario AGT-01 "get, update, get-and-update and cast call their functions in the agent, in order"
  :expect [1 :ok [:old 2] :ok 30 true]
  :ours (let [[_ pid] (agent/start-link (constantly 1))]
          [(agent/get pid identity)
           (agent/update pid inc)
           (agent/get-and-update pid (fn [n] [[:old n] (* 5 n)]))
           (agent/cast pid #(* 3 %))
           (agent/get pid identity)
           (= pid (agent/get pid (fn [_] (self))))])
  :elixir "{:ok, pid} = Agent.start_link(fn -> 1 end)
    {Agent.get(pid, & &1), Agent.update(pid, & &1 + 1), Agent.get_and_update(pid, fn n -> {{:old, n}, 5 * n} end), Agent.cast(pid, & &1 * 3),
     Agent.get(pid, & &1), pid == Agent.get(pid, fn _ -> self() end)}")

(scenario AGT-02 "a function that fails ends the agent, and the call"
  :expect [:boom false]
  :ours (let [[_ pid] (agent/start (constantly 1))
              [_ [{:keys [message]}]] (let [reason (atom nil)]
                                        (try
                                          (agent/get pid (fn [_] (throw (ex-info "boom" {}))))
                                          (catch clojure.lang.ExceptionInfo e (reset! reason [:exit (:reason (ex-data e))])))
                                        @reason)]
          [(keyword message) (actor/alive? pid)])
  :elixir "{:ok, pid} = Agent.start(fn -> 1 end)
    {:exit, {%RuntimeError{message: message}, _}} = failure(fn -> Agent.get(pid, fn _ -> raise \"boom\" end) end)
    {String.to_atom(message), Process.alive?(pid)}")
