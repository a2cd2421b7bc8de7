(ns magnetar.otp.event-test
  "Scenarios of event managers."
  (:require
   [magnetar.actor :as actor :refer [! exit flag receive self]]
   [magnetar.gen-event :as ge]
   [magnetar.impl.runtime]
   [magnetar.otp.machines :refer [told]]
   [magnetar.otp.scenarios :as scenarios :refer [scenario]]
   [magnetar.otp.servers :as servers :refer [failure head tells]]))

(set! *warn-on-reflection* true)

(def ^:private handler
  "A handler whose state is [whom to tell, what it calls itself]; events that are functions are what they return of the state."
  {:name 'ge
   :init (fn [x]
           (cond
             (fn? x) (x)
             (fn? (first x)) ((first x) (second x))
             :else [:ok x]))
   :handle-event (fn [event [to id :as s]]
                   (if (fn? event) (event s) (do (! to [:event id event]) [:ok s])))
   :handle-info (fn [message [to id :as s]]
                  (when-not (= :EXIT (head message)) (! to [:info id message]))
                  [:ok s])
   :handle-call (fn [request [_ id :as s]]
                  (if (fn? request) (request s) [:ok [id request] s]))
   :terminate (fn [why [to id]]
                (! to [:term id (if (= :error (head why)) (head why) why)])
                [:terminated id])})

(defn- named [id]
  [handler id])

(defn- short-id [known-by]
  (if (vector? known-by) (second known-by) known-by))

(defn- manager [& ids]
  (let [[_ pid] (ge/start)]
    (doseq [id ids]
      (ge/add-handler pid (named id) [(self) id]))
    pid))

(defn- which [pid]
  (mapv short-id (ge/which-handlers pid)))

(defn- for-id
  "An event that does f with the state of the handler with this id, and nothing to others."
  [wanted f]
  (fn [[_ id :as s]]
    (if (= wanted id) (f s) [:ok s])))

(defn- boom [_]
  (throw (ex-info "boom" {})))

(scenario GE-01 "each handler gets an event, the one that was added last first"
  :expect [[:event :b :x] [:event :a :x]]
  :ours (do (ge/notify (manager :a :b) :x) (told 2))
  :erl "gen_event:notify(manager([a, b]), x), told(2)")

(defn- holding
  "An event that waits for :go before it is told."
  []
  (fn [[to :as s]]
    (! to [:holds (self)])
    (receive :go nil)
    (! to :held)
    [:ok s]))

(scenario GE-02 "notify returns at once, sync-notify when the handlers have run"
  :expect [[:ok true] [:ok true]]
  :ours (let [pid (manager :a)
              later (holding)
              value (ge/notify pid later)
              [_ who] (tells)
              waits? (actor/alive? who)
              _ (! who :go)
              _ (tells)
              done (ge/sync-notify pid (fn [[to :as s]] (! to :ran) [:ok s]))]
          [[value waits?] [done (= [:ran] (actor/flush))]])
  :erl "P = manager([a]),
    V = gen_event:notify(P, fun({To, _} = S) -> To ! {holds, self()}, receive go -> ok end, To ! held, {ok, S} end),
    {holds, Who} = tells(), W = is_process_alive(Who), Who ! go, tells(),
    D = gen_event:sync_notify(P, fun({To, _} = S) -> To ! ran, {ok, S} end),
    {{V, W}, {D, flush() =:= [ran]}}")

(scenario GE-04 "a handler whose init returns something else or crashes is not there"
  :expect [:nope :EXIT []]
  :ours (let [pid (manager)]
          [(ge/add-handler pid handler (fn [] :nope)) (head (ge/add-handler pid handler #(boom nil))) (ge/which-handlers pid)])
  :erl "P = manager([]), A = gen_event:add_handler(P, ?MODULE, fun() -> nope end), {B, _} = gen_event:add_handler(P, ?MODULE, fun() -> error(boom) end),
    {A, case B of 'EXIT' -> 'EXIT' end, gen_event:which_handlers(P)}")

(scenario GE-05 "a handler that crashes is removed; the manager and the others go on"
  :expect [[:a] [:event :a :y]]
  :ours (let [pid (manager :a :b)]
          (ge/notify pid (for-id :b boom))
          (tells)
          (ge/notify pid :y)
          [(which pid) (tells)])
  :erl "P = manager([a, b]), gen_event:notify(P, for_id(b, fun(_) -> error(boom) end)), tells(), gen_event:notify(P, y),
    {which(P), tells()}")

(scenario GE-06 "the terminate of a handler that crashed hears of the error"
  :expect [:term :b :error]
  :ours (do (ge/notify (manager :a :b) (for-id :b boom)) (tells))
  :erl "gen_event:notify(manager([a, b]), for_id(b, fun(_) -> error(boom) end)), tells()")

(defn- supervised
  "A manager with a handler that this process supervises."
  [id]
  (let [pid (manager)]
    (ge/add-sup-handler pid (named id) [(self) id])
    pid))

(scenario GE-07 "who supervises a handler hears that it crashed"
  :expect [:gen-event-EXIT :b :EXIT]
  :ours (do (ge/notify (supervised :b) (for-id :b boom))
            (receive [:gen-event-EXIT [_ id] why] [:gen-event-EXIT id (head why)]))
  :erl "gen_event:notify(supervised(b), for_id(b, fun(_) -> error(boom) end)),
    receive {gen_event_EXIT, {_, Id}, {Why, _}} -> {gen_event_EXIT, Id, Why} end")

(scenario GE-08 "a handler goes with the process that supervises it"
  :expect [[:term :c [:stop :boom]] []]
  :ours (let [pid (manager)
              me (self)
              owner (actor/spawn #(do (ge/add-sup-handler pid (named :c) [me :c]) (! me :added) (receive :never nil)))]
          (tells)
          (exit owner :boom)
          [(tells) (which pid)])
  :erl "P = manager([]), Me = self(),
    Owner = spawn(fun() -> gen_event:add_sup_handler(P, {?MODULE, c}, {Me, c}), Me ! added, receive never -> ok end end),
    tells(), exit(Owner, boom), {tells(), which(P)}")

(scenario GE-09 "a handler removes itself, and its supervisor hears that it ended normally"
  :expect [[:term :a :remove-handler] [:gen-event-EXIT :a :normal]]
  :ours (do (ge/notify (supervised :a) (fn [_] :remove-handler))
            [(tells) (update (tells) 1 short-id)])
  :erl "gen_event:notify(supervised(a), fun(_) -> remove_handler end), {tells(), begin {X, {_, Id}, W} = tells(), {X, Id, W} end}")

(scenario GE-10 "delete-handler returns what terminate returned"
  :expect [[:terminated :a] [:term :a :bye] [:error :module-not-found]]
  :ours (let [pid (manager :a)]
          [(ge/delete-handler pid (named :a) :bye) (tells) (ge/delete-handler pid (named :a) :bye)])
  :erl "P = manager([a]), {gen_event:delete_handler(P, {?MODULE, a}, bye), tells(), gen_event:delete_handler(P, {?MODULE, a}, bye)}")

(defn- taking-over
  "The argument of a handler that takes over: its init tells what it is given."
  []
  (let [me (self)]
    (fn [left]
      (! me [:swapped :z left])
      [:ok [me :z]])))

(scenario GE-11 "a handler that is swapped in gets what the old one left"
  :expect [[:term :a :swp] [:swapped :z [:terminated :a]] [:z :b]]
  :ours (let [pid (manager :a :b)]
          (ge/swap-handler pid (named :a) :swp (named :z) (taking-over))
          (conj (told 2) (which pid)))
  :erl "P = manager([a, b]), gen_event:swap_handler(P, {{?MODULE, a}, swp}, {{?MODULE, z}, taking_over()}), told(2) ++ [which(P)]")

(scenario GE-13 "a call gets the answer of the handler"
  :expect [[:a :q] [:error :bad-module]]
  :ours (let [pid (manager :a)]
          [(ge/call pid (named :a) :q) (ge/call pid (named :absent) :q)])
  :erl "P = manager([a]), {gen_event:call(P, {?MODULE, a}, q), gen_event:call(P, {?MODULE, absent}, q)}")

(scenario GE-14 "the caller of a handler that crashes is told, and the handler removed"
  :expect [:error :EXIT []]
  :ours (let [pid (manager :a)
              [how [why]] (ge/call pid (named :a) boom)]
          [how why (which pid)])
  :erl "P = manager([a]), {How, {Why, _}} = gen_event:call(P, {?MODULE, a}, fun(_) -> error(boom) end), {How, Why, which(P)}")

(scenario GE-15 "each handler gets any other message"
  :expect [[:info :b :hi] [:info :a :hi]]
  :ours (do (! (manager :a :b) :hi) (told 2))
  :erl "manager([a, b]) ! hi, told(2)")

(scenario GE-16 "a manager that is stopped lets its handlers terminate, and ends normally"
  :expect [:ok [[:term :b :stop] [:term :a :stop]] :normal]
  :ours (let [pid (manager :a :b)
              ref (actor/monitor pid)
              value (ge/stop pid)]
          [value (told 2) (receive [:DOWN ref :process _ why] why)])
  :erl "P = manager([a, b]), R = monitor(process, P), V = gen_event:stop(P), {V, told(2), receive {'DOWN', R, process, _, W} -> W end}")

(scenario GE-17 "an event that nobody hears is well sent"
  :expect [:ok :ok]
  :ours [(ge/notify (manager) :x) (ge/notify (scenarios/dead) :x)]
  :erl "{gen_event:notify(manager([]), x), gen_event:notify(dead(), x)}")

(scenario GE-18 "which-handlers has what they are known by, the last one first"
  :expect [:b :a]
  :ours (which (manager :a :b))
  :erl "which(manager([a, b]))")

(scenario GE-19 "a manager ends with its parent"
  :expect [:boom [:term :a :stop]]
  :ours (let [me (self)
              parent (actor/spawn #(let [[_ pid] (ge/start-link)]
                                     (ge/add-handler pid (named :a) [me :a])
                                     (! me [:manager pid])
                                     (receive :never nil)))
              pid (receive [:manager pid] pid)
              why (servers/reason-of-end pid #(exit parent :boom))]
          [why (tells)])
  :erl "Me = self(),
    Parent = spawn(fun() -> {ok, P} = gen_event:start_link(), gen_event:add_handler(P, {?MODULE, a}, {Me, a}), Me ! {manager, P}, receive never -> ok end end),
    P = receive {manager, X} -> X end, W = reason_of_end(P, fun() -> exit(Parent, boom) end), {W, tells()}")

(scenario GE-20 "a handler puts another in its place"
  :expect [[:term :a :s1] [:swapped :z [:terminated :a]] [:b :z]]
  :ours (let [pid (manager :a :b)
              new (taking-over)]
          (ge/notify pid (for-id :a (fn [s] [:swap-handler :s1 s (named :z) new])))
          (conj (told 2) (which pid)))
  :erl "P = manager([a, b]), New = taking_over(),
    gen_event:notify(P, for_id(a, fun(S) -> {swap_handler, s1, S, {?MODULE, z}, New} end)), told(2) ++ [which(P)]")
