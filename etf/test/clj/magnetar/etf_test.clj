(ns magnetar.etf-test
  "Each tag by its bytes, as OTP 25 writes them; what comes back; what is refused, with its place."
  {:wakes false}
  (:require
   [clojure.test :refer [are deftest is testing]]
   [magnetar.etf :as etf]
   [magnetar.etf-support :refer [hex plain reason refusal same? unhex]])
  (:import
   (java.util ArrayList Arrays HashMap HashSet)
   (magnetar.etf BitString Decoder Encoder Export Fun Identities ImproperList Pid Port Reference)))

(set! *warn-on-reflection* true)

(defn- encoded [value]
  (unhex (etf/encode value)))

(defn- decoded [text]
  (etf/decode (hex text)))

(deftest terms-have-the-bytes-that-erlang-gives-them
  (are [value text] (and (= text (encoded value)) (same? value (decoded text)))
    nil "8377036e696c"
    true "83770474727565"
    false "83770566616c7365"
    :ok "8377026f6b"
    :a/b "837703612f62"
    (keyword "") "837700"
    :Ärger "837706c38472676572"
    0 "836100"
    255 "8361ff"
    256 "836200000100"
    -1 "8362ffffffff"
    2147483647 "83627fffffff"
    -2147483648 "836280000000"
    2147483648 "836e040000000080"
    -2147483649 "836e040101000080"
    Long/MAX_VALUE "836e0800ffffffffffffff7f"
    Long/MIN_VALUE "836e08010000000000000080"
    9223372036854775808 "836e08000000000000000080"
    -9223372036854775809 "836e08010100000000000080"
    1.5 "83463ff8000000000000"
    -0.0 "83468000000000000000"
    1.0e300 "83467e37e43c8800759c"
    "" "836d00000000"
    "ada" "836d00000003616461"
    "ä" "836d00000002c3a4"
    (byte-array [255 0]) "836d00000002ff00"
    () "836a"
    '(1 2 3) "836b0003010203"
    '(1 300) "836c000000026101620000012c6a"
    [] "836800"
    [:ok] "83680177026f6b"
    [:ok '(1.0) []] "83680377026f6b6c00000001463ff00000000000006a6800"
    {} "837400000000"
    {:a 1} "8374000000017701616101"
    {1 :a, 1.0 :b} "8374000000026101770161463ff0000000000000770162"))

(deftest opaque-terms-come-back-to-the-same-bytes
  (are [value text] (and (= value (decoded text)) (= text (encoded value)))
    (Pid. "a@b" 85 0 7) "83587703614062000000550000000000000007"
    (Port. "a@b" 5 7) "835977036140620000000500000007"
    (Port. "a@b" 4294967296 7) "83787703614062000000010000000000000007"
    (Reference. "a@b" 7 (int-array [1 2 3])) "835a0003770361406200000007000000010000000200000003"
    (BitString. (byte-array [0xa0]) 3) "834d0000000103a0"
    (BitString. (byte-array [1 2 0xc0]) 2) "834d00000003020102c0"
    (ImproperList. '(:a) :b) "836c00000001770161770162"
    (Export. "lists" "map" 2) "837177056c6973747377036d61706102"))

(def ^:private fun
  "fun (X) -> X + Y, with Y = <<\"ada\">> and a list of bytes as free variables, as a node writes it."
  (str "8370" "00000047" "01" "00112233445566778899aabbccddeeff" "00000003" "00000002" "77026d79" "6103" "6205e3a1b2"
       "5877036140620000005500000000000000076d000000036164616b00020102"))

(deftest a-fun-comes-back-to-the-same-bytes-with-its-parts
  (let [^Fun f (decoded fun)]
    (is (= fun (encoded f)))
    (is (= f (decoded fun)))
    (is (= ["my" 1 3 (Pid. "a@b" 85 0 7) ["ada" '(1 2)]] [(.module f) (.arity f) (.index f) (.pid f) (.free f)]))))

(deftest funs-differ-by-their-free-variables
  (let [with-free #(decoded (.replace ^String fun "6d00000003616461" (str "6d00000003" %)))
        numbered (map #(with-free (format "ff%04x" %)) (range 300))]
    (is (= (with-free "ff0001") (with-free "ff0001")) "also if these are byte arrays")
    (is (= (hash (with-free "ff0001")) (hash (with-free "ff0001"))))
    (is (= 300 (count (distinct numbered))))
    (is (= 300 (count (etf/decode (etf/encode (zipmap numbered (range)))))))))

(deftest older-forms-are-read-and-written-in-the-newer-form
  (are [value text] (same? value (decoded text))
    :ok "836400026f6b"
    :Ärger "83640005c472676572"
    :ok "8373026f6b"
    nil "836400036e696c"
    :ok "837600026f6b"
    1.5 "8363312e353030303030303030303030303030303030303030652b303000000000"
    5 "836e02000500"
    0 "836e0001"
    "a" "834d000000010861"
    "" "834d0000000000"
    '(1 :a) "836c0000000161016c000000017701616a"
    (Pid. "a@b" 85 0 3) "8367640003614062000000550000000003"
    (Port. "a@b" 5 3) "83666400036140620000000503"
    (Reference. "a@b" 3 (int-array [9])) "83656400036140620000000903"
    (Reference. "a@b" 3 (int-array [9 8])) "83720002640003614062030000000900000008"
    (Export. "lists" "map" 2) "83716400056c697374736400036d61706102"))

(deftest compressed-terms-are-read
  (let [text (apply str (repeat 1000 "ada "))
        bytes (etf/encode text)
        deflated (java.io.ByteArrayOutputStream.)]
    (with-open [out (java.util.zip.DeflaterOutputStream. deflated)]
      (.write out bytes 1 (dec (alength bytes))))
    (let [compressed (fn [size] (byte-array (concat [131 80] (.array (.putInt (java.nio.ByteBuffer/allocate 4) size)) (.toByteArray deflated))))]
      (is (= text (etf/decode (compressed (dec (alength bytes))))))
      (is (= :magnetar/bad-term (reason #(etf/decode (compressed (alength bytes))))) "too many bytes are told")
      (is (= :magnetar/bad-term (reason #(etf/decode (compressed (- (alength bytes) 2))))) "too few bytes are told")
      (is (= :magnetar/bad-term (reason #(etf/decode (byte-array (concat (compressed (dec (alength bytes))) [0]))))) "more behind it")
      (is (= :magnetar/bad-term (reason #(etf/decode (hex "835000ffffff789c")))) "more than can be")
      (is (= :magnetar/bad-term (reason #(etf/decode (compressed (* 2 (alength bytes)))))) "fewer than are told, of what is possible")
      (is (= :magnetar/term-limit (reason #(etf/decode (etf/codec {:max-size 500}) (compressed (dec (alength bytes))))))))))

(defrecord Point [x y])

(deftest what-erlang-has-no-type-for-comes-back
  (are [value] (same? value (etf/decode (etf/encode value)))
    #{} #{1 :a} #{#{1}} 'a 'a/b \a \uffff 1/3 1.50M -7E+20M (java.util.UUID. 1 -2) #inst "2026-11-29" (java.time.Instant/ofEpochSecond -5 7)
    java.time.Instant/MAX ##NaN ##Inf ##-Inf "\ud800" :nil :true (keyword "a" "b/c") [:$clj] [:$clj :set '(1)] [[:$clj 1] {:$clj [:$clj]}]
    (byte-array 0) (byte-array [97 98]) (byte-array [-1])))

(deftest collections-and-numbers-come-back-as-their-plain-kind
  (are [value back] (same? back (etf/decode (etf/encode value)))
    (sorted-map :b 1 :a 2) {:a 2 :b 1}
    (sorted-set 3 1) #{1 3}
    (into clojure.lang.PersistentQueue/EMPTY [1 2]) '(1 2)
    (map inc [1 2]) '(2 3)
    (range 3) '(0 1 2)
    (first {:a 1}) [:a 1]
    (subvec [1 2 3] 1) [2 3]
    (vector-of :long 1 2) [1 2]
    (array-map :a 1) {:a 1}
    (ArrayList. [1 [2]]) '(1 [2])
    (HashMap. {"a" 1}) {"a" 1}
    (HashSet. [1]) #{1}
    (int 7) 7
    (short 7) 7
    (byte -7) -7
    7N 7
    (biginteger 7) 7
    (float 1.5) 1.5
    (with-meta [1] {:a 1}) [1]))

(deftest large-collections-come-back
  (doseq [n [32 33 255 256 1000]]
    (are [value] (= value (etf/decode (etf/encode value)))
      (vec (range n)) (list* (range n)) (set (range n)) (zipmap (range n) (range)))))

;; ---- for plain Erlang

(deftest plain-erlang-gets-its-own-terms-only
  (are [value text] (= text (unhex (etf/encode plain value)))
    (byte-array [97]) "836d0000000161"
    [:$clj 1] "836802770424636c6a6101")
  (are [value] (= :magnetar/no-term (reason #(etf/encode plain value)))
    #{1} 'a \a 1/3 1.5M (java.util.UUID. 1 2) #inst "2026" ##NaN ##Inf "\ud800" :nil (keyword nil "a/b") (java.time.Instant/EPOCH) (HashSet.))
  (is (= [:$clj :set '(1)] (etf/decode plain (etf/encode #{1}))) "and a set that is sent is a tuple"))

(deftest nil-is-the-atom-undefined-where-that-is-chosen
  (let [codec (etf/codec {:nil :undefined})
        erlang (etf/codec {:nil :undefined :extensions false})]
    (are [value text] (and (= text (unhex (etf/encode codec value))) (same? value (etf/decode codec (hex text))))
      nil "837709756e646566696e6564"
      :nil "8377036e696c"
      [nil :nil] "8368027709756e646566696e656477036e696c")
    (is (= [nil :nil] (etf/decode codec (hex "836802640009756e646566696e65646400036e696c"))))
    (are [value] (same? value (etf/decode codec (etf/encode codec value)))
      :undefined {:undefined nil nil :undefined :nil 1} ['a 'a/b :true #{nil :nil :undefined}])
    (is (= :magnetar/no-term (reason #(etf/encode erlang :undefined))))
    (is (= [:undefined nil] (etf/decode (hex "8368027709756e646566696e656477036e696c"))) "as other codecs read it, also afterwards")
    (is (= "8377036e696c" (unhex (etf/encode nil))))))

;; ---- extensions

(def ^:private shapes
  (etf/codec {:extensions [(etf/record-extension :my/point Point map->Point)
                           (etf/extension {:tag :my/path :class java.nio.file.Path :write str :read #(java.nio.file.Path/of % (make-array String 0))})]}))

(deftest extensions-are-found-by-class-and-interface
  (let [value {:at [(->Point 1 #{2}) (assoc (->Point 1 2) :z 3)] :in (java.nio.file.Path/of "a" (into-array ["b"]))}]
    (is (= value (etf/decode shapes (etf/encode shapes value))))
    (is (= :magnetar/unknown-extension (reason #(etf/decode (etf/encode shapes value)))))
    (is (= :my/point (:tag (refusal #(etf/decode (etf/encode shapes (->Point 1 2)))))))
    (is (= :magnetar/no-term (reason #(etf/encode value))) "a record is not written unless it is registered")))

(deftest an-extension-that-throws-refuses-the-value-or-the-term
  (let [failing (etf/codec {:extensions [(etf/extension {:tag :my/file :class java.io.File
                                                         :write (fn [_] (throw (IllegalStateException. "closed"))) :read identity})
                                         (etf/extension {:tag :my/point :class Point :write vec :read (fn [_] (throw (IllegalStateException. "closed")))})]})
        bytes (etf/encode failing {:a (->Point 1 2)})]
    (is (= [:magnetar/no-term [:a 0] :my/file]
           ((juxt :magnetar/reason :path :tag) (refusal #(etf/encode failing {:a [(java.io.File. "b")]})))))
    (is (= [:magnetar/bad-term :my/point] ((juxt :magnetar/reason :tag) (refusal #(etf/decode failing bytes)))))))

(deftest a-precondition-of-an-extension-refuses-the-value-or-the-term
  (let [failing (etf/codec {:extensions [(etf/extension {:tag :my/file :class java.io.File :write (fn [_] (assert false)) :read identity})
                                         (etf/extension {:tag :my/point :class Point :write vec :read (fn [_] (assert false))})]})]
    (is (= :magnetar/no-term (reason #(etf/encode failing (java.io.File. "a")))))
    (is (= :magnetar/bad-term (reason #(etf/decode failing (etf/encode failing (->Point 1 2))))))))

(deftest keys-that-cannot-be-compared-are-refused
  (let [with-sorted (etf/codec {:extensions [(etf/extension {:tag :my/sorted :class clojure.lang.PersistentTreeMap :write #(into {} %) :read #(into (sorted-map) %)})]})
        sorted (sorted-map 1 2)
        body #(rest (etf/encode with-sorted %))]
    (is (= {sorted 2} (etf/decode with-sorted (etf/encode with-sorted {sorted 2}))))
    (is (= :magnetar/bad-term (reason #(etf/decode with-sorted (byte-array (concat [131 116 0 0 0 2] (body {:a 2}) (body 1) (body sorted) (body 2)))))))))

(deftest a-list-that-an-extension-ends-is-refused-or-read
  (let [ending (fn [end] (etf/codec {:extensions [(etf/extension {:tag :my/end :class Point :write vec :read (fn [_] end)})]}))
        bytes (etf/encode (ending nil) (->Point 1 2))
        improper (fn [] (byte-array (concat [131 108 0 0 0 1 97 7] (rest bytes))))]
    (is (= '(7 1 2) (etf/decode (ending (map inc [0 1])) (improper))))
    (is (= :magnetar/bad-term (reason #(etf/decode (ending (eduction [1])) (improper)))))
    (is (= (ImproperList. '(7) [1]) (etf/decode (ending [1]) (improper))))))

(deftest a-decoder-that-is-reading-reads-nothing-else
  (let [in (promise)
        codec (etf/codec {:extensions [(etf/extension {:tag :my/point :class Point :write vec :read #(etf/decode @in (etf/encode %))})]})]
    (deliver in (etf/decoder codec))
    (is (= :magnetar/bad-term (reason #(etf/decode @in (etf/encode codec [(->Point 1 2)])))))
    (is (= 1 (etf/decode @in (etf/encode 1))))))

(deftest a-payload-of-its-own-class-nests-too-deep
  (is (= :magnetar/term-limit
         (reason #(etf/encode (etf/codec {:extensions [(etf/extension {:tag :my/point :class Point :write identity :read identity})]}) (->Point 1 2))))))

(deftest a-misfit-is-refused
  (are [text] (= :magnetar/bad-term (reason #(decoded (str "8368" text))))
    "017704" "01770424636c6a"
    "03770424636c6a" "03770424636c6a7703736574" "03770424636c6a77037365746101"
    "03770424636c6a77037365746c0000000261" "03770424636c6a7703736574" "03770424636c6a77037365746b00020101"
    "03770424636c6a77046368617261"
    "04770424636c6a7705726174696f61016100"
    "03770424636c6a77047575696461"
    "03770424636c6a7706646f75626c6577016e"
    "0277026f"))

;; ---- identities

(def ^:private node
  (reify Identities
    (write [_ value] (when (instance? Thread value) (Pid. "a@b" (.threadId ^Thread value) 0 1)))
    (read [_ identity]
      (if (and (instance? Pid identity) (= (.id ^Pid identity) (.threadId (Thread/currentThread)))) (Thread/currentThread) identity))))

(deftest identities-of-a-program-are-pids-on-the-wire
  (let [codec (etf/codec {:identities node})
        me (Thread/currentThread)
        bytes (etf/encode codec {:from me})]
    (is (= {:from me} (etf/decode codec bytes)))
    (is (= {:from (Pid. "a@b" (.threadId me) 0 1)} (etf/decode bytes)))
    (is (= (Pid. "a@b" 0 0 1) (etf/decode codec (etf/encode (Pid. "a@b" 0 0 1)))))))

(deftest an-identity-may-be-an-improper-list-with-one
  (let [tag (ImproperList. (list :alias) (Reference. "a@b" 1 (int-array [1 2 3])))
        codec (etf/codec {:identities (reify Identities
                                        (write [_ value] (when (instance? Thread value) tag))
                                        (read [_ identity] identity))})]
    (is (= [tag :x] (etf/decode (etf/encode codec [(Thread/currentThread) :x]))))))

;; ---- refusals

(deftest a-hook-that-throws-on-reading-refuses-the-term
  (let [failing (etf/codec {:identities (reify Identities
                                          (write [_ _] nil)
                                          (read [_ _] (throw (IllegalStateException. "closed"))))})]
    (is (= :magnetar/bad-term (reason #(etf/decode failing (etf/encode failing (Pid. "a@b" 1 2 3))))))))

(deftest a-hook-that-gives-something-else-refuses-the-value
  (let [failing (etf/codec {:identities (reify Identities
                                          (write [_ value] (when (set? value) value))
                                          (read [_ identity] identity))})]
    (is (= [:magnetar/no-term [0]] ((juxt :magnetar/reason :path) (refusal #(etf/encode failing [#{1}])))))))

(deftest a-value-without-a-term-is-refused-with-its-path
  (are [path value] (= [:magnetar/no-term path] ((juxt :magnetar/reason :path) (refusal #(etf/encode value))))
    [] inc
    [:a 0 :b] {:a [{:b inc}]}
    [:a 2] {:a (list 1 2 inc)}
    [[3 inc] 1] #{1 [3 inc]}
    ["k" 1] {"k" (map #(if (= 1 %) inc %) (range 3))}
    [:a] {:a (doto (HashMap.) (.put 1 :long) (.put (int 1) :int))}
    [:a] {:a (doto (HashSet.) (.add 1) (.add (int 1)))})
  (is (= "`magnetar.etf/encode`: the value at [:a 0] is a java.lang.Object, which has no term. Encode other data in its place, or give the codec an extension for the class."
         (:message (refusal #(etf/encode {:a [(Object.)]}))))))

(deftest bad-bytes-are-refused-with-their-offset
  (are [offset text] (= [:magnetar/bad-term offset] ((juxt :magnetar/reason :offset) (refusal #(decoded text))))
    0 ""
    0 "84"
    0 "83"
    1 "83c8"
    1 "8379"
    3 "8361610100"
    3 "836801"
    5 "8368026161"
    6 "836d0000000561"
    6 "836cffffffff61"
    6 "837480000000"
    3 "8377026f"
    10 "83467ff0000000000000"
    10 "83467ff8000000000000")
  (is (= "`magnetar.etf/decode`: the term at byte 6 is cut off (bytes needed: 5, left: 1)." (:message (refusal #(decoded "836d0000000561"))))))

(deftest keys-that-are-equal-here-refuse-a-map
  (are [text] (= :magnetar/bad-term (reason #(decoded text)))
    "83740000000261016101" "8374000000026101610261018374000000026a610168008374000000026a610168006101"))

(defn- other
  "A byte array that is not identical to another one with the same bytes."
  [& numbers]
  (byte-array numbers))

(deftest keys-with-the-same-term-are-refused-on-both-sides
  (are [codec value] (= [:magnetar/no-term [:a]] ((juxt :magnetar/reason :path) (refusal #(etf/encode codec {:a value}))))
    plain (hash-map (other -1) 1 (other -1) 2)
    plain {(other 97) 1 "a" 2}
    (etf/codec) (hash-map [(other 97)] 1 [(other 97)] 2)
    (etf/codec) (hash-map (list {(other -1) 1}) 1 (list {(other -1) 1}) 2)
    (etf/codec) (hash-set 1 (other -1) (other -1))
    (etf/codec) (hash-map ##NaN 1 (Double. Double/NaN) 2)
    (etf/codec) (sorted-map-by (fn [x y] (compare (hash x) (hash y))) (other -1) 1 (other -1) 2)
    (etf/codec) (sorted-map-by (fn [x y] (compare (str (class x)) (str (class y)))) 1 :a 1N :b)
    plain (sorted-map-by (fn [x y] (compare (str (class x)) (str (class y)))) 1.5 :a (float 1.5) :b)
    (etf/codec) (sorted-set-by (fn [x y] (compare (str (class x)) (str (class y)))) 1 1N))
  (are [text] (= :magnetar/bad-term (reason #(etf/decode plain (hex text))))
    "8374000000026d00000001ff61016d00000001ff6102"
    "83740000000268016d00000001ff610168016d00000001ff6102")
  (is (= :magnetar/bad-term (reason #(decoded "836803770424636c6a77037365746c000000026d00000001ff6d00000001ff6a"))))
  (are [value] (same? value (etf/decode (etf/encode value)))
    {(other 97) 1 "a" 2 {(other 97) 3} 4}
    {[(other -1)] {(other -1) 1} [(other -2)] #{(other -1)}}
    #{#{1} #{} [#{(other -1)}] {#{(other -1)} #{(other -1)}} 300}))

(deftest depth-is-limited
  (let [nested (fn [n] (nth (iterate vector 1) n))]
    (is (= (nested 256) (etf/decode (etf/encode (nested 256)))))
    (is (= [:magnetar/term-limit :max-depth] ((juxt :magnetar/reason :limit) (refusal #(etf/encode (nested 257))))))
    (is (= [:magnetar/term-limit :max-depth]
           ((juxt :magnetar/reason :limit) (refusal #(etf/decode (etf/encode (etf/codec {:max-depth 1000}) (nested 257)))))))
    (is (= :magnetar/term-limit (reason #(etf/encode (iterate list ())))) "a value that contains itself has no end")))

(deftest keys-within-keys-are-limited
  (let [nested (fn [n] (nth (iterate #(hash-map % 1) 1) n))
        wide (etf/codec {:max-depth 1000})
        bomb (byte-array (concat [131 116 0 0 0 2] (mapcat (fn [_] (concat (mapcat (fn [_] [116 0 0 0 1]) (range 200)) [97 1] (repeat 402 97))) (range 2))))]
    (is (= (nested 8) (etf/decode (etf/encode (nested 8)))))
    (is (= [:magnetar/term-limit :keys-in-keys] ((juxt :magnetar/reason :limit) (refusal #(etf/encode wide (nested 10))))))
    (is (= :magnetar/term-limit (reason #(etf/decode wide bomb))))))

(def ^:private wide-key
  "A map of eight keys, each such a map, so many levels deep. Two with other numbers differ in their last key alone."
  (memoize (fn [levels number]
             (if (zero? levels)
               (str "key" number)
               (apply array-map (mapcat (fn [n] [(wide-key (dec levels) n) 1]) (concat (range 1 8) [(+ 8 number)])))))))

(deftest keys-that-take-long-to-compare-are-refused
  (let [read-back (fn [value] (etf/decode (etf/encode value)))
        limit (fn [value] ((juxt :magnetar/reason :limit) (refusal #(read-back value))))
        texts (for [i (range 40)] (apply str (for [k (range 6)] (if (bit-test i k) "Aa" "BB"))))
        without-one (fn [n items] (for [i (range n)] (set (concat (take i items) (drop (inc i) items)))))]
    (is (= [:magnetar/term-limit :keys-in-keys] (limit {(wide-key 4 7) 1 (wide-key 4 8) 2})) "with a level more it took 19 s")
    (is (= [:magnetar/term-limit :keys-in-keys] (limit (set (without-one 12 (without-one 24 texts))))))
    (are [value] (= value (read-back value))
      {(wide-key 2 7) 1 (wide-key 2 8) 2}
      (set (for [i (range 5000)] {:id i :name (str i) :tags #{:a :b}}))
      (set (for [i (range 500)] (set (range i (+ i 30)))))
      (into {} (for [x (range 100) y (range 100)] [[x y] 1]))
      (into {} (for [i (range 3000)] [{:a i :b {:c i}} [i]]))
      (set (for [i (range 1024)] (set (filter #(bit-test i %) (range 10)))))
      (set (for [i (range 3000)] [(double i) (/ i 8)]))
      (nth (iterate hash-set 1) 100)
      #{#{#{#{#{1 2} 3} 4} 5} 6})))

(deftest keys-with-one-hash-are-limited
  (let [texts (for [i (range 256)] (apply str (for [k (range 8)] (if (bit-test i k) "Aa" "BB"))))
        some-texts (fn [n] (zipmap (take n texts) (range)))]
    (is (= 1 (count (distinct (map hash texts)))))
    (is (= (some-texts 128) (etf/decode (etf/encode (some-texts 128)))))
    (is (= [:magnetar/term-limit :equal-hashes 128]
           ((juxt :magnetar/reason :limit :value) (refusal #(etf/decode (etf/encode (some-texts 129)))))))
    (is (= :magnetar/term-limit (reason #(etf/decode (etf/encode (set texts))))))
    (is (= (some-texts 128) (select-keys (etf/decode (etf/encode (merge (some-texts 128) (zipmap (range 10000) (range))))) texts)))))

(deftest size-is-limited
  (let [small (etf/codec {:max-size 300})]
    (is (= 300 (alength (etf/encode small (apply str (repeat 294 "a"))))))
    (are [value] (= [:magnetar/term-limit :max-size] ((juxt :magnetar/reason :limit) (refusal #(etf/encode small value))))
      (apply str (repeat 295 "a")) (range) (vec (range 300)) (byte-array 300) (apply str (repeat 200 "ä")) (bigint (.shiftLeft BigInteger/ONE 3000)))
    (is (= :magnetar/term-limit (reason #(etf/decode small (etf/encode (vec (range 300)))))))))

(deftest a-term-of-exactly-the-size-is-written
  (are [value] (let [size (alength (etf/encode value))]
                 (and (= size (alength (etf/encode (etf/codec {:max-size size}) value)))
                      (= :magnetar/term-limit (reason #(etf/encode (etf/codec {:max-size (dec size)}) value)))))
    (vec (range 148)) [1000 (vec (range 255))] (repeat 60000 7) {:a (repeat 300 1.5)} (repeat 300 1/3)))

(defn- new-atoms [n]
  (vec (repeatedly n #(keyword (str (gensym "atom-of-the-test-"))))))

(defn- atom-bytes
  "The term of a tuple of n atoms that the program does not know."
  [n]
  (etf/encode plain (mapv #(str "x" %) (range n)))
  (byte-array (concat [131 105] (.array (.putInt (java.nio.ByteBuffer/allocate 4) n))
                      (mapcat #(let [b (.getBytes (str (random-uuid) %))] (concat [119 (alength b)] b)) (range n)))))

(deftest atoms-that-the-program-does-not-know-are-limited
  (let [codec (etf/codec {:max-atoms 10})
        in (etf/decoder codec)
        bytes (atom-bytes 10)]
    (is (= [:magnetar/term-limit :max-atoms] ((juxt :magnetar/reason :limit) (refusal #(etf/decode codec (atom-bytes 11))))))
    (is (= 10 (count (etf/decode in bytes))))
    (is (= 10 (count (etf/decode in bytes))) "known atoms are not counted again")
    (is (= :magnetar/term-limit (reason #(etf/decode in (atom-bytes 1)))) "a connection counts all its terms")
    (is (= [:ok 1] (etf/decode in (etf/encode [:ok 1]))) "and goes on with the atoms that it has")
    (is (= (new-atoms 0) (etf/decode in (etf/encode []))))))

(deftest a-keyword-with-a-long-name-counts-as-many-atoms
  (let [long-name (fn [n] (keyword (str (random-uuid)) (apply str (repeat n "x"))))
        bytes (fn [n] ; of a keyword that the program does not have: its namespace begins with a z
                (let [b ^bytes (etf/encode (long-name n))] (aset b 25 (byte 122)) b))]
    (is (= :magnetar/term-limit (reason #(etf/decode (etf/codec {:max-atoms 10}) (bytes 10000)))))
    (is (keyword? (etf/decode (etf/codec {:max-atoms 10}) (bytes 2000))))))

(deftest numbers-that-take-long-to-compare-are-limited
  (let [power (fn [n] (BigDecimal. (.pow BigInteger/TEN n)))
        ratio (fn [n] (clojure.lang.Ratio. (.pow (biginteger 3) n) BigInteger/TWO))]
    (are [value] (same? value (etf/decode (etf/encode value))) (power 19720) (ratio 5100))
    (are [value] (= [:magnetar/term-limit :digits] ((juxt :magnetar/reason :limit) (refusal #(etf/encode value))))
      (power 19740) (ratio 5200))
    (is (= :magnetar/term-limit (reason #(decoded (str "8368047704" "24636c6a7707646563696d616c" "6f00002001" "00" (apply str (repeat 0x2001 "01")) "6100")))))
    (is (> 300 (count (:message (refusal #(etf/encode {(power 19740) 1}))))))))

(deftest a-ratio-that-is-not-reduced-is-refused-on-both-sides
  (are [numerator denominator]
       (and (= :magnetar/no-term (reason #(etf/encode (clojure.lang.Ratio. (biginteger numerator) (biginteger denominator)))))
            (= :magnetar/bad-term (reason #(decoded (format "8368047704%s62%08x62%08x" "24636c6a7705726174696f" numerator denominator)))))
    2 4, 3 1, 0 3, 3 -2, 3 0, -6 4))

(deftest a-small-stack-refuses-and-throws-nothing-else
  (let [codec (etf/codec {:max-depth 10000})
        bytes (byte-array (concat [131] (mapcat (fn [_] [104 1]) (range 9999)) [106]))
        outcome (promise)]
    (doto (Thread. nil #(deliver outcome (try [(reason (fn [] (etf/decode codec bytes))) (reason (fn [] (etf/encode codec (nth (iterate vector 1) 9999))))]
                                              (catch Throwable e e)))
                   "small" 65536)
      .start .join)
    (is (= [:magnetar/term-limit :magnetar/term-limit] @outcome))))

(defn- allocated ^long []
  (.getThreadAllocatedBytes ^com.sun.management.ThreadMXBean (java.lang.management.ManagementFactory/getThreadMXBean)
                            (.threadId (Thread/currentThread))))

(deftest lists-take-little-memory
  (are [value] (let [codec (etf/codec {:max-depth 300})
                     bytes (etf/encode codec value)
                     from (allocated)
                     back (etf/decode codec bytes)
                     took (- (allocated) from)]
                 (and (same? value back) (or (< took (* 10 (alength bytes))) took)))
    (apply list (repeat 20000 7))
    (apply list (repeat 20000 ()))
    (apply list (repeat 5000 '(1 2)))
    (apply list (repeat 5000 '(1 2 3 4 5)))
    (apply list (repeat 5000 '([] ())))))

(deftest a-value-that-takes-much-memory-is-refused
  (let [refused (fn [codec value] ((juxt :magnetar/reason :limit :value) (refusal #(etf/decode codec (etf/encode codec value)))))
        many (fn [value] (vec (repeat 100000 value)))
        nested (nth (iterate vector ()) 200)]
    (are [value] (let [codec (etf/codec)
                       bytes (etf/encode codec value)
                       from (allocated)]
                   (and (= [:magnetar/term-limit :max-growth 10] ((juxt :magnetar/reason :limit :value) (refusal #(etf/decode codec bytes))))
                        (< (- (allocated) from) (+ 5000000 (* 13 (alength bytes)))))) ; with what is garbage at once
      (many [()]) (many [1 2]) (many #{1 2}) (vec (repeat 2000 nested)) (vec (repeat 5000 (set (range 24)))) (vec (repeat 5000 (zipmap (range 24) (range))))
      (many (Export. "a" "b" 1)))
    (is (= [nil nil nil] (refused (etf/codec {:max-growth 33}) (vec (repeat 2000 nested)))))
    (is (= [nil nil nil] (refused (etf/codec) (vec (repeat 300 nested)))) "a value of 4 MiB is read")
    (are [value] (= [nil nil nil] (refused (etf/codec) value))
      (many [1 2 3]) (many [1000 2]) (many "a") (many {1 2}) (many 1000) (many 1.5) (many '(1)) (many '(1 2 3 4)) (many {:id 1 :name "ada"})
      (set (range 1000 20000)) (zipmap (range 100000) (range)) (many (Pid. "a@b" 1 2 3)))))

(deftest a-list-that-was-read-is-a-list
  (doseq [items [[1] [1 2] [1 2 3] (range 200) [:a] [:a :b] (map str (range 100))]]
    (let [back (etf/decode (etf/encode (apply list items)))]
      (is (list? back))
      (is (= items back (into [] back) (reduce conj [] back) (mapv first (take-while seq (iterate pop back)))))
      (is (= (hash items) (hash back)))
      (is (= (.hashCode ^Object (apply list items)) (.hashCode ^Object back)))
      (is (= (count items) (count back)))
      (is (= (first items) (peek back)))
      (is (= (rest items) (rest back)))
      (is (= (cons 0 items) (conj back 0)))
      (is (list? (conj back 0)))
      (is (= (count items) (count (pop (conj back 0)))))
      (is (identical? () (empty back)))
      (is (= (reduce (fn [_ x] (reduced [x])) nil items) (reduce (fn [_ x] (reduced [x])) nil back)))
      (is (= (reduce vector items) (reduce vector back)))
      (is (= {:a 1} (meta (with-meta back {:a 1}))))
      (is (= (pr-str (apply list items)) (pr-str back)))
      (is (= back (etf/decode (etf/encode back)))))))

(deftest a-list-that-ends-with-a-list-is-read-as-one
  (are [text value] (same? value (decoded text))
    "836c0000000161056b0003010203" '(5 1 2 3)
    "836c0000000161056c0000000161066107" (ImproperList. '(5 6) 7)))

(deftest lengths-that-nest-take-no-memory
  (let [n 1000000
        bomb (byte-array (concat (cons 131 (mapcat (fn [_] [108 0 0xf 0 0]) (range 250))) (repeat n 106)))
        from (allocated)]
    (is (= :magnetar/bad-term (reason #(etf/decode bomb))))
    (is (< (- (allocated) from) (* 10 n)) "at most one of them is believed")))

;; ---- arguments

(deftest options-are-checked-where-they-are-given
  (are [id options] (= id (reason #(etf/codec options)))
    :magnetar/unknown-option {:max-deph 3}
    :magnetar/bad-options [:max-depth 3]
    :magnetar/bad-option {:max-depth 0}
    :magnetar/bad-option {:max-depth 10001}
    :magnetar/bad-option {:max-size nil}
    :magnetar/bad-option {:max-size 4294967296}
    :magnetar/bad-option {:max-atoms -1}
    :magnetar/bad-option {:max-growth 0}
    :magnetar/bad-option {:max-growth 1001}
    :magnetar/bad-option {:nil nil}
    :magnetar/bad-option {:nil :null}
    :magnetar/bad-option {:extensions nil}
    :magnetar/bad-option {:extensions [inc]}
    :magnetar/bad-option {:identities inc}
    :magnetar/bad-option {:extensions [(etf/record-extension :my/a Point map->Point) (etf/record-extension :my/b Point map->Point)]})
  (are [id options] (= id (reason #(etf/extension options)))
    :magnetar/bad-options nil
    :magnetar/bad-extension {:tag :point :class Point :write vec :read vec}
    :magnetar/bad-extension {:tag :my/point :class 'Point :write vec :read vec}
    :magnetar/bad-extension {:tag :my/point :class String :write vec :read vec}
    :magnetar/bad-extension {:tag :my/point :class Point :write 1 :read vec}
    :magnetar/bad-extension {:tag :my/point :class Point :write vec}
    :magnetar/unknown-option {:tag :my/point :class Point :write vec :read vec :reed vec}))

(deftest other-arguments-are-checked
  (are [id form] (= id (reason (fn [] form)))
    :magnetar/not-a-codec (etf/encode {} 1)
    :magnetar/not-a-codec (etf/decode {} (byte-array 1))
    :magnetar/not-a-codec (etf/encoder nil)
    :magnetar/not-a-codec (etf/decoder (etf/encoder (etf/codec)))
    :magnetar/bad-source (etf/decode "abc")
    :magnetar/bad-source (etf/decode nil)
    :magnetar/bad-source (etf/decode (etf/codec) (byte-array 5) 3 3)
    :magnetar/bad-source (etf/decode (etf/codec) (byte-array 5) -1 3)
    :magnetar/bad-source (etf/decode (etf/codec) (byte-array 5) nil 3)
    :magnetar/bad-source (etf/decode (etf/codec) (byte-array 5) 1 Long/MAX_VALUE)
    :magnetar/bad-source (etf/encode-into (etf/codec) 1 (byte-array 5) nil)
    :magnetar/bad-source (etf/encode-into (etf/codec) 1 (byte-array 5) 6)
    :magnetar/no-room (etf/encode-into (etf/codec) 1 (byte-array 5) 3)))

;; ---- connections

(deftest a-part-of-an-array-is-written-and-read
  (let [codec (etf/codec)
        array (byte-array 100)
        end (etf/encode-into (etf/encoder codec) [:order 17] array 10)]
    (is (= [:order 17] (etf/decode codec array 10 (- (long end) 10))))
    (is (= (vec (etf/encode [:order 17])) (subvec (vec array) 10 end)))))

(deftest an-encoder-appends-terms-behind-a-header
  (let [out ^Encoder (etf/encoder (etf/codec))
        in ^Decoder (etf/decoder (etf/codec))]
    (.clear out 4)
    (.append out :control)
    (let [first-end (.length out)]
      (is (= :magnetar/no-term (reason #(.append out [1 inc]))))
      (is (= first-end (.length out)) "an error leaves what was there")
      (.append out {:payload 1})
      (is (= :control (.read in (.buffer out) 4 (- (.length out) 4))))
      (is (= first-end (.position in)))
      (is (= {:payload 1} (.decode in (.buffer out) (.position in) (- (.length out) (.position in))))))))

(deftest a-term-without-its-version-is-read-with-the-atoms-of-a-header
  (let [out ^Encoder (etf/encoder (etf/codec))
        in ^Decoder (etf/decoder (etf/codec))]
    (.clear out 1)
    (.appendBare out [:order 17])
    (.appendBare out :next)
    (is (= 104 (aget (.buffer out) 1)) "a tuple, and not the version")
    (is (= [:order 17] (.read in (.buffer out) 1 (dec (.length out)) (object-array 0))))
    (is (= :next (.read in (.buffer out) (.position in) (- (.length out) (.position in)) (object-array 0))))))

(deftest lists-of-small-integers-have-the-short-form
  (are [tag value] (let [bytes (etf/encode value)]
                     (and (= tag (aget bytes 1)) (same? (apply list value) (etf/decode bytes))))
    107 (range 256) 108 (range 257) 107 (repeat 65535 1) 108 (repeat 65536 1) 108 (concat (repeat 65535 1) [:a])
    108 '(1 2 3000) 108 '(1 2 [1]) 108 (list 1 (list 1 2 (list 1000) 1N 2N 300N)) 107 (list 1N (int 2) (short 3))))

(deftest terms-are-written-into-an-array-of-the-caller
  (let [out ^Encoder (etf/encoder (etf/codec))
        in ^Decoder (etf/decoder (etf/codec))
        array (byte-array 10 (byte 9))]
    (.begin out array 3)
    (.append out :x)
    (is (identical? array (.buffer out)))
    (is (= [9 9 9 -125 119 1 120 9 9 9] (vec array)))
    (.append out (apply str (repeat 100000 "a")))
    (is (= [9 9 9 -125 119 1 120 -125] (take 8 (.buffer out))) "a longer copy")
    (is (= :x (.read in (.buffer out) 3 (- (.length out) 3))))
    (is (= 100000 (count (.decode in (.buffer out) (.position in) (- (.length out) (.position in))))))
    (.begin out array 0)
    (.clear out 0)
    (.append out :y)
    (is (= 9 (first array)) "the encoder keeps no array of the caller")
    (is (thrown? IllegalArgumentException (.begin out array 11)))))

(deftest an-encoder-that-is-writing-writes-nothing-else
  (let [out (etf/encoder (etf/codec))]
    (is (thrown? IllegalStateException (etf/encode out (map #(etf/encode out %) [1 2]))))
    (is (= 1 (etf/decode (etf/encode out 1))))))

(deftest an-encoder-drops-the-memory-of-a-large-value
  (let [out ^Encoder (etf/encoder (etf/codec))]
    (etf/encode out (byte-array 1000000))
    (is (> 100000 (alength (.buffer out))))))

(deftest atoms-of-each-length-are-told-apart-at-each-place
  (let [codec (etf/codec)
        names ["" "\u0000" "\u0000\u0000" "a" "\u0000a" "a\u0000" "ab" "abcdefg" "abcdefgh" "\u0000abcdefg" "abcdefghi" "ÿÿÿÿ" "ÿÿÿÿÿ"]]
    (dotimes [_ 2] ; the second time from the cache
      (doseq [text names, behind [0 1 5 20]]
        (let [bytes ^bytes (etf/encode (keyword text))
              array (byte-array (concat [1 2 3] bytes (repeat behind 97)))]
          (is (= text (name (etf/decode codec array 3 (alength bytes))))))))
    (is (= (map keyword names) (etf/decode (etf/encode (map keyword names)))))))

(deftest cached-atoms-mean-those-of-the-connection
  (let [in ^Decoder (etf/decoder (etf/codec))
        atoms (object-array [:ok nil (keyword "a@b")])
        bytes (hex "6804520052015852020000000100000002000000035202")]
    (is (= [:ok nil (Pid. "a@b" 1 2 3) (keyword "a@b")] (.read in bytes 0 (alength bytes) atoms)))
    (is (= :magnetar/bad-term (reason #(.read in (hex "5203") 0 2 atoms))))
    (is (= :magnetar/bad-term (reason #(decoded "835200"))))))

(deftest atoms-that-a-connection-keeps-are-made-by-its-decoder
  (let [in ^Decoder (etf/decoder (etf/codec {:max-atoms 2}))
        atom-of (fn [^String text] (let [bytes (.getBytes (str ".." text))] (.atom in bytes 2 (- (alength bytes) 2))))
        unknown #(str "a" (random-uuid))]
    (is (= [:ok nil true (keyword "") :a/b] (map atom-of ["ok" "nil" "true" "" "a/b"])))
    (is (every? keyword? (map atom-of [(unknown) (unknown)])))
    (is (= :magnetar/term-limit (reason #(atom-of (unknown)))))
    (is (= :magnetar/bad-term (reason #(.atom in (byte-array [-1]) 0 1))))
    (is (= :ok (etf/decode in (etf/encode :ok))))))

(deftest values-of-java-are-checked
  (are [form] (thrown? IllegalArgumentException form)
    (Pid. "a@b" -1 0 0)
    (Pid. "a@b" 4294967296 0 0)
    (Reference. "a@b" 0 (int-array 0))
    (Reference. "a@b" 0 (int-array 6))
    (BitString. (byte-array 1) 8)
    (BitString. (byte-array 0) 3)
    (ImproperList. () 1)
    (ImproperList. '(1) '(2))
    (Export. "a" "b" 256))
  (testing "copies are given out"
    (let [bits (BitString. (byte-array [-1]) 3)]
      (Arrays/fill (.bytes bits) (byte 0))
      (is (= [-32] (vec (.bytes bits)))))))

(deftest what-is-no-ascii-is-seen-at-each-place
  (doseq [n (range 1 26), i (range n)
          :let [plain-text (apply str (repeat n \a))
                text (str (subs plain-text 0 i) \é (subs plain-text (inc i)))
                bytes (doto (String/.getBytes plain-text) (aset i (byte -1)))]]
    (is (= text (etf/decode (etf/encode text))))
    (is (Arrays/equals bytes ^bytes (etf/decode (etf/encode bytes))))))
