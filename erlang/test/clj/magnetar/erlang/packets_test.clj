(ns magnetar.erlang.packets-test
  "Signals as packets, with a scripted other side: headers, fragments, the cache of atoms, and what no node sends."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.scripted :as scripted
    :refer [bytes-of control creation ended? flags hang-up join logged next-control packet pid reference running term]]
   [magnetar.gen-server :as gs])
  (:import
   (clojure.lang ExceptionInfo)
   (java.io DataInputStream DataOutputStream)
   (java.util Arrays Random)
   (magnetar.etf ImproperList Pid)
   (magnetar.kernel.process ForeignRef)))

(set! *warn-on-reflection* true)

(def ^:private other "b@127.0.0.1")

(def ^:private their-pid (pid other 5))

(defn- improper [item tail]
  (ImproperList. (list item) tail))

(defn- with-process
  "Calls f in a process with the name :inbox, while the scripted node is connected."
  ([f] (with-process {} (atom []) f))
  ([options lines f]
   (running options lines
     (fn []
       (let [peer (join other)]
         (try
           (actor/with-process {:name :inbox} (f peer))
           (finally (hang-up peer))))))))

(defn- got
  "The next message of this process; :none if none comes."
  []
  (receive x x (after scripted/limit-ms :none)))

(defn- to-inbox
  "A control message for a message to the name :inbox."
  []
  [6 their-pid (keyword "") :inbox])

;; ---- messages

(deftest a-message-to-a-name-and-one-to-a-pid-arrive
  (with-process
    (fn [peer]
      (control peer (to-inbox) {:order [17 "Emma" '(1 2)]})
      (is (= {:order [17 "Emma" '(1 2)]} (got)))
      (! [:shelf other] [(self) :count])
      (let [[[op from unused name] [own :as message]] (next-control peer)]
        (is (= [6 (keyword "") :shelf] [op unused name]))
        (is (= from own))
        (is (= [own :count] message))
        (control peer [22 their-pid own] :by-pid)
        (is (= :by-pid (got)))
        (control peer [2 (keyword "") own] :without-a-sender)
        (is (= :without-a-sender (got)))
        (control peer [23 their-pid own :token] :traced)
        (is (= :traced (got)))
        (control peer [16 their-pid (keyword "") :inbox :token] :traced-too)
        (is (= :traced-too (got)))))))

(deftest a-pid-of-the-other-node-is-sent-to
  (with-process
    (fn [peer]
      (control peer (to-inbox) their-pid)
      (let [far (got)]
        (is (= other (actor/node far)))
        (! far :hello)
        (is (= [[22 their-pid] :hello] (update (next-control peer) 0 (fn [[op _ to]] [op to]))))))))

(deftest a-message-from-outside-of-a-process-has-a-sender-for-erlang
  (with-process
    (fn [peer]
      @(future (! [:shelf other] :late))
      (is (= [[6 0 :shelf] :late] (update (next-control peer) 0 (fn [[op ^magnetar.etf.Pid from _ name]] [op (.id from) name])))))))

(deftest a-message-without-a-term-of-erlang-is-refused-where-it-is-sent
  (with-process
    (fn [peer]
      (is (= [:tags] (try (! [:shelf other] {:tags #{:new}}) (catch ExceptionInfo e (:path (ex-data e))))))
      (! [:shelf other] :fine)
      (is (= :fine (second (next-control peer)))))))

(deftest nil-is-the-atom-of-the-option
  (doseq [[as value] [[:nil "nil"] [:undefined "undefined"]]]
    (with-process {:nil as} (atom [])
      (fn [peer]
        (packet peer 131 68 0 (term (to-inbox)) 119 (count value) (scripted/utf-8 value))
        (is (nil? (got)))))))

;; ---- references

(deftest a-reference-of-the-other-node-comes-back-with-its-words
  (with-process
    (fn [peer]
      (doseq [words [[7] [1 2 3] [1 2 3 4 -5]]
              :let [theirs (apply reference other words)]]
        (control peer (to-inbox) [theirs theirs])
        (let [[one same] (got)]
          (is (= one same))
          (is (instance? ForeignRef one))
          (is (= words (vec (.words ^ForeignRef one))))
          (! [:shelf other] {one :seen})
          (is (= {theirs :seen} (second (next-control peer)))))))))

(deftest an-alias-of-the-other-node-is-sent-to
  (with-process
    (fn [peer]
      (let [theirs (reference other 1 2 3 4 -5)]
        (control peer (to-inbox) theirs)
        (! (got) [:order 17])
        (let [[[op from to] message] (next-control peer)]
          (is (= [33 theirs [:order 17]] [op to message]))
          (control peer [22 their-pid from] :answer)
          (is (= :answer (got))))))))

(deftest a-message-to-an-alias-of-a-third-node-is-not-forwarded
  (with-process
    (fn [peer]
      (control peer [33 their-pid (reference "c@127.0.0.1" 1 2 3 4 5)] :lost)
      (control peer [33 their-pid (reference other 1 2 3 4 5)] :lost)
      (control peer (to-inbox) [(improper :alias (reference other 1 2 3 4 5)) :a-value])
      (is (= :a-value (second (got))))
      (is (= [other] (erlang/nodes))))))

;; ---- the cache of atoms

(def ^:private inbox-op
  "{6, Pid, '', inbox} with the atoms 0 and 1 of the header."
  (bytes-of #(doto ^DataOutputStream % (.write (int 104)) (.write (int 4)) (.write (int 97)) (.write (int 6)) (.write ^bytes (term their-pid))
               (.write (int 82)) (.write (int 0)) (.write (int 82)) (.write (int 1)))))

(deftest atoms-are-cached
  (with-process
    (fn [peer]
      ;; two atoms, both new: '' at 0 of segment 0 and inbox at 7 of segment 2; the third half-byte says that lengths have one byte
      (packet peer 131 68 2 (+ 8 (* 16 (+ 8 2))) 0 0 0 7 5 (scripted/utf-8 "inbox") inbox-op (term 1))
      (is (= 1 (got)))
      (packet peer 131 68 2 (+ 0 (* 16 2)) 0 0 7 inbox-op (term 2))
      (is (= 2 (got)))
      ;; a third one, new, with a length of two bytes
      (packet peer 131 68 3 (+ 0 (* 16 2)) (+ 8 3 (* 16 1)) 0 7 9 0 4 (scripted/utf-8 "true") inbox-op 82 2)
      (is (true? (got)))
      (packet peer 131 68 3 (+ 0 (* 16 2)) 3 0 7 9 inbox-op 82 2)
      (is (true? (got))))))

;; ---- fragments

(deftest fragments-of-two-messages-between-each-other
  (with-process
    (fn [peer]
      (let [parts (fn [value]
                    (let [all (bytes-of #(doto ^DataOutputStream % (.write ^bytes (term (to-inbox))) (.write ^bytes (term value))))
                          n (alength all)]
                      [(Arrays/copyOfRange all 0 10) (Arrays/copyOfRange all 10 (- n 3)) (Arrays/copyOfRange all (- n 3) n)]))
            long-number #(bytes-of (fn [^DataOutputStream out] (.writeLong out (long %))))
            [a1 a2 a3] (parts "the first of them")
            [b1 b2 b3] (parts "the second of them")]
        (packet peer 131 69 (long-number 100) (long-number 3) 0 a1)
        (packet peer 131 69 (long-number 200) (long-number 3) 0 b1)
        (packet peer 131 70 (long-number 100) (long-number 2) a2)
        (control peer (to-inbox) :between)
        (packet peer 131 70 (long-number 200) (long-number 2) b2)
        (packet peer 131 70 (long-number 200) (long-number 1) b3)
        (packet peer 131 70 (long-number 100) (long-number 1) a3)
        (packet peer 131 69 (long-number 300) (long-number 1) 0 (term (to-inbox)) (term :alone))
        (is (= [:between "the second of them" "the first of them" :alone] (repeatedly 4 got)))))))

;; ---- a node without headers

(deftest a-node-without-headers-sends-and-gets-terms-alone
  (running
    (fn []
      (let [peer (join other (bit-and flags (bit-not 0x802000)))
            full #(magnetar.etf/encode scripted/plain %)]
        (actor/with-process {:name :inbox}
          (packet peer 112 (full (to-inbox)) (full :plain))
          (is (= :plain (got)))
          (! [:shelf other] :plain)
          (let [bytes (scripted/next-packet peer)]
            (is (= 112 (first bytes)))
            (is (str/ends-with? (String. bytes "ISO-8859-1") (str (char 131) "w" (char 5) "plain")))))
        (hang-up peer)))))

;; ---- what no node sends

(defn- closed-by
  "The line that is logged when f has made the node close the connection."
  [f]
  (let [lines (atom [])]
    (with-process {} lines
      (fn [peer]
        (f peer)
        (is (ended? peer))
        (is (scripted/eventually #(= [] (erlang/nodes))))))
    (is (= 1 (count @lines)))
    (second (re-find #"^The connection with the node b@127.0.0.1 is closed\. (.*)" (first @lines)))))

(deftest garbage-closes-the-connection-with-one-line
  (let [number #(bytes-of (fn [^DataOutputStream out] (.writeLong out (long %))))]
    (doseq [[f sentence]
            [[#(packet % 1 2 3) "A packet begins with the byte 1 where 131 has to be."]
             [#(packet % 131) "A packet of one byte has come."]
             [#(packet % 131 99) "A packet of the unknown kind 99 has come."]
             [#(packet % 131 68 0 97 1) "A control message is no tuple with a number."]
             [#(packet % 131 68 0 104) #"^A control message cannot be read: "]
             [#(packet % 131 68 1 0 0) #"refers to the atom 0 of the cache, which was never sent"]
             [#(packet % 131 68 1 8 0 200) "A packet ends within the atoms of its header."]
             [#(control % [6 their-pid]) "A control message 6 has only 2 parts."]
             [#(control % [6 17 :a :inbox] :x) "A control message has a Long where a Pid has to be."]
             [#(control % (to-inbox)) "A control message for a message has none behind it."]
             [#(control % [1 (pid "c@127.0.0.1" 5) their-pid]) "The process of a link or a monitor is on another node than b@127.0.0.1."]
             [#(packet % 131 70 (number 1) (number 1) 5) "The part 1 of a message has come where another one has to be."]
             [#(packet % 131 69 (number 1) (number 0) 0) "A message of 0 parts has begun."]
             [#(scripted/send-bytes % (byte-array [127 0 0 0])) #"A packet of 2130706432 bytes was announced; at most 134217728"]]
            :let [line (closed-by f)]]
      (is (if (string? sentence) (= sentence line) (re-find sentence (str line)))))))

(deftest what-this-node-cannot-read-or-does-not-know-is-dropped-with-a-report
  (scripted/failures-of
    (fn [failures]
      (with-process
        (fn [peer]
          (packet peer 131 68 0 (term (to-inbox)) 255)
          (control peer [99 :of-the-future])
          (control peer [99 :of-the-future])
          (control peer [7 their-pid their-pid])
          (control peer (to-inbox) :goes-on)
          (is (= :goes-on (got)))))
      (is (= [:bad-term :unknown] (map #(if (instance? ExceptionInfo (:error %)) :bad-term :unknown) @failures)))
      (is (str/includes? (ex-message (:error (second @failures))) "the control message 99")))))

(defn- mutated
  "The bytes with one to four of them changed, one left out, or the end cut off."
  ^bytes [^Random random ^bytes bytes]
  (let [n (alength bytes)
        at #(.nextInt random n)]
    (case (.nextInt random 3)
      0 (let [copy (aclone bytes)]
          (dotimes [_ (inc (.nextInt random 4))]
            (aset copy (at) (unchecked-byte (.nextInt random 256))))
          copy)
      1 (let [i (int (at))]
          (byte-array (concat (take i bytes) (drop (inc i) bytes))))
      (Arrays/copyOf bytes (int (at))))))

(def ^:private real-packets
  "Packets to processes that are not there."
  (let [own (Pid. "m@127.0.0.1" 4000000000 9 creation)
        header [(byte-array [131 68 0])]
        of (fn [& parts] (byte-array (mapcat seq parts)))]
    [(apply of (into header [(term [6 their-pid (keyword "") :nobody]) (term {:a [1 2.5 "x" '(1 2)] :b (repeat 40 :c)})]))
     (apply of (into header [(term [22 their-pid own]) (term [:$gen_call [their-pid (improper :alias (reference other 1 2 3))] :x])]))
     (apply of (into header [(term [19 their-pid :nobody (reference other 1 2 3 4 5)])]))
     (apply of (into header [(term [28 :nobody own (reference other 1 2 3)]) (term :gone)]))
     (apply of (into header [(term [1 their-pid own])]))
     (apply of (into header [(term [35 18446744073709551615 their-pid own])]))
     (of [131 68 2 (unchecked-byte (+ 8 (* 16 (+ 8 2)))) 0 0 0 7 6] (scripted/utf-8 "nobody") inbox-op (term 1))
     (of [131 69 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0 3 0] (term [6 their-pid (keyword "") :nobody]))
     (of [131 70 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0 2] (term "part"))]))

(deftest mutated-packets-are-dropped-or-close-the-connection-and-nothing-else
  (scripted/failures-of
    (fn [failures]
      (running
        (fn []
          (let [random (Random. 20261129)]
            (dotimes [_ 150]
              (let [peer (join other)]
                (dotimes [_ 20]
                  (packet peer (mutated random (nth real-packets (.nextInt random (count real-packets))))))
                (hang-up peer)
                (is (scripted/eventually #(= [] (erlang/nodes)))))))))
      (is (= [] (remove #(or (instance? ExceptionInfo (:error %)) (instance? UnsupportedOperationException (:error %))) @failures))))))

;; ---- silence

(deftest a-silent-node-gets-ticks-and-is-closed
  (let [lines (atom [])]
    (with-process {:tick 1000} lines
      (fn [peer]
        (is (= [0 0] (repeatedly 2 #(alength (scripted/next-packet peer)))))
        (is (ended? peer))
        (is (scripted/eventually #(= [] (erlang/nodes))))))
    (is (= ["The connection with the node b@127.0.0.1 is closed, because it has said nothing for too long."] @lines))))

(deftest a-node-that-ticks-stays
  (with-process {:tick 1000} (atom [])
    (fn [peer]
      (dotimes [_ 12] ; more than two times the time that it may be silent
        (scripted/next-packet peer)
        (scripted/send-bytes peer (byte-array 4)))
      (is (= [other] (erlang/nodes))))))

;; ---- a node that does not read

(deftest senders-wait-for-a-node-that-does-not-read-and-are-freed-when-it-ends
  (with-process {:buffer 1000} (atom [])
    (fn [peer]
      (let [sent (atom 0)
            text (apply str (repeat 100000 "x"))
            sender (actor/spawn-monitor #(dotimes [_ 1000] (! [:shelf other] text) (swap! sent inc)))]
        (is (scripted/eventually #(= "room in the stream to b@127.0.0.1" (:waits-for (actor/process-info (first sender))))))
        (is (< (long @sent) 1000))
        (hang-up peer)
        (is (= [:DOWN (second sender)] (take 2 (got))))))))

;; ---- servers

(defn- server [calls]
  (gs/start {:init (fn [_] [:ok nil])
             :handle-call (fn [request from state] (swap! calls conj from) (case request :silence [:noreply state] [:reply request state]))
             :handle-cast (fn [request state] (! :inbox [:cast request]) [:noreply state])}
            nil {:name :echo}))

(deftest calls-of-erlang-are-answered-to-their-alias
  (with-process
    (fn [peer]
      (let [[_ pid] (server (atom []))
            alias (reference other 1 2 3 4 -5)]
        (control peer [6 their-pid (keyword "") :echo] [:$gen_call [their-pid (improper :alias alias)] {:x 1}])
        (is (= [33 alias [(improper :alias alias) {:x 1}]] (let [[[op _ to] message] (next-control peer)] [op to message])))
        (let [tag (improper (improper :alias alias) :more)]
          (control peer [6 their-pid (keyword "") :echo] [:$gen_call [their-pid tag] :y])
          (is (= [33 alias [tag :y]] (let [[[op _ to] message] (next-control peer)] [op to message]))))
        (let [plain (reference other 7)]
          (control peer [6 their-pid (keyword "") :echo] [:$gen_call [their-pid plain] :z])
          (is (= [22 their-pid [plain :z]] (let [[[op _ to] message] (next-control peer)] [op to message]))))
        (control peer [6 their-pid (keyword "") :echo] [:$gen_cast :c])
        (is (= [:cast :c] (got)))
        (gs/stop pid)))))

(deftest the-tag-of-a-call-of-erlang-is-a-reference-and-is-written-as-it-came
  (with-process
    (fn [peer]
      (let [calls (atom [])
            [_ pid] (server calls)
            alias (reference other 1 2 3 4 -5)]
        (doseq [[tag op to] [[(improper :alias alias) 33 alias] [alias 22 their-pid]]]
          (control peer [6 their-pid (keyword "") :echo] [:$gen_call [their-pid tag] :x])
          (is (= [op to [tag :x]] (let [[[op _ to] message] (next-control peer)] [op to message])))
          (is (instance? ForeignRef (second (peek @calls))))
          (! [:shelf other] {:from (peek @calls)})
          (is (= {:from [their-pid tag]} (second (next-control peer))))
          (gs/reply (peek @calls) :again)
          (is (= [op to [tag :again]] (let [[[op _ to] message] (next-control peer)] [op to message]))))
        (is (apply = (map second @calls)) "the two are one reference")
        (gs/stop pid)))))

(deftest an-answer-without-a-term-is-a-notice-of-a-death-and-the-server-lives
  (scripted/failures-of
    (fn [failures]
      (with-process
        (fn [peer]
          (let [[_ pid] (gs/start {:init (fn [_] [:ok nil]) :handle-call (fn [_ _ state] [:reply #{1} state])} nil {:name :echo})
                alias (reference other 1 2 3)]
            (control peer [6 their-pid (keyword "") :echo] [:$gen_call [their-pid (improper :alias alias)] :x])
            (let [[[op _ to ref] [why]] (next-control peer)]
              (is (= [28 their-pid alias :unsendable] [op to ref why])))
            (is (actor/alive? pid))
            (gs/stop pid))))
      (is (= 1 (count @failures))))))

(deftest a-call-to-erlang-is-a-gen-call-whose-answer-comes-to-the-alias-or-to-the-pid
  (with-process
    (fn [peer]
      (doseq [to-alias? [true false]
              :let [answer (promise)]]
        (actor/spawn #(deliver answer (gs/call [:shelf other] [:count 12])))
        (let [[[op watcher name ref]] (next-control peer)
              _ (is (= [19 :shelf] [op name]))
              [_ [word [caller tag] request]] (next-control peer)]
          (is (= [:$gen_call watcher [:count 12]] [word caller request]))
          (is (= (improper :alias ref) tag))
          (control peer (if to-alias? [33 their-pid ref] [22 their-pid caller]) [tag 7])
          (is (= 7 (deref answer scripted/limit-ms :late)))
          (is (= [[20 watcher :shelf ref]] (next-control peer)) "the monitor ends"))))))

(deftest a-cast-to-erlang-is-a-gen-cast
  (with-process
    (fn [peer]
      (gs/cast [:shelf other] :fill)
      (is (= [:$gen_cast :fill] (second (next-control peer)))))))

;; ---- monitors and links

(deftest a-monitor-of-erlang-fires-once-with-its-own-reference
  (with-process
    (fn [peer]
      (let [child (actor/spawn #(receive :end nil))
            [a b c d] (map #(reference other 1 2 %) [3 4 5 6])]
        (actor/register :child child)
        (control peer [19 their-pid :child a])
        (control peer [19 their-pid :child b])
        (control peer [20 their-pid :child b])
        (control peer [19 their-pid :nobody c])
        (is (= [[28 :nobody their-pid c] :noproc] (next-control peer)))
        (control peer [20 their-pid :child d])
        (control peer [19 their-pid :child a])
        (control peer (to-inbox) :begun)
        (is (= :begun (got)))
        (! child :end)
        (is (= [[28 :child their-pid a] :normal] (next-control peer)))
        (! [:shelf other] :nothing-between)
        (is (= :nothing-between (second (next-control peer))))))))

(deftest a-link-of-erlang-ends-both-sides
  (with-process
    (fn [peer]
      (actor/flag :trap-exit true)
      (! [:shelf other] (self))
      (let [me (second (next-control peer))]
        (control peer [1 their-pid me])
        (control peer [24 their-pid me] :gone)
        (is (= [:EXIT :gone] ((juxt first peek) (got))))
        (control peer [24 their-pid me] :again)
        (control peer [26 their-pid me] :told)
        (is (= [:EXIT :told] ((juxt first peek) (got))))
        (control peer [1 their-pid me])
        (control peer [35 99 their-pid me])
        (is (= [[36 99 me their-pid]] (next-control peer)))
        (control peer [1 their-pid me])
        (hang-up peer)
        (is (= [:EXIT :noconnection] ((juxt first peek) (got))))))))

(deftest a-monitor-and-a-link-to-erlang
  (with-process
    (fn [peer]
      (actor/flag :trap-exit true)
      (control peer (to-inbox) their-pid)
      (let [far (got)
            ref (actor/monitor far)
            [[op me to theirs]] (next-control peer)]
        (is (= [19 their-pid] [op to]))
        (control peer [28 their-pid me theirs] [:shutdown "why"])
        (is (= [:DOWN ref :process far [:shutdown "why"]] (got)))
        (actor/link far)
        (is (= [[1 me their-pid]] (next-control peer)))
        (actor/unlink far)
        (let [[[op id from to]] (next-control peer)]
          (is (= [35 me their-pid] [op from to]))
          (is (pos? (long id)))
          (control peer [36 id their-pid me]))
        (actor/exit far :enough)
        (is (= [[26 me their-pid] :enough] (next-control peer)))))))
