(ns magnetar.table-snapshot-test
  "Tables in files: whole or refused, and never in the way of the old one."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is use-fixtures]]
   [magnetar.actor :as actor]
   [magnetar.dev.processes :as processes]
   [magnetar.impl.table.snapshot :as format]
   [magnetar.table :as table]
   [magnetar.table.snapshot :as snapshot])
  (:import
   (clojure.lang IExceptionInfo)
   (java.io File)
   (java.nio.file Files LinkOption OpenOption)
   (java.nio.file.attribute PosixFilePermissions)))

(set! *warn-on-reflection* true)

(use-fixtures :each (fn [test] (actor/with-process {} (test))))

(defrecord Point [x y])

(defn- file ^File []
  (io/file (processes/temporary-folder) "saved.table"))

(defn- with-rows [kind rows]
  (doto (table/create kind {:access :public})
    (table/insert-all rows)))

(defn- rows-of [t]
  (into [] (table/rows t)))

(defn- refused [f]
  (try
    [:done (f)]
    (catch RuntimeException e
      [(:magnetar/reason (.getData ^IExceptionInfo e)) (ex-message e)])))

(def ^:private rows
  [[1 "line\nline \u00fc \ud83d\ude00" \newline] [nil nil] [:k 'sym #{1.5 2N 1/3 ##Inf}] [[1 {:a (list)}] #uuid "00000000-0000-0001-0000-000000000002"]
   ["t" #inst "2026-01-01"] [true [false]] [1.5M -0.0]])

(deftest ^{:spec ["C127"]} what-is-restored-is-what-was-saved
  (doseq [kind [:set :bag :duplicate-bag]]
    (let [f (file)
          t (with-rows kind (conj rows [:pid (actor/self)] [:ref (actor/make-ref)] [1 :again]))]
      (is (= (:size (table/info t)) (snapshot/save t f)))
      (let [restored (snapshot/restore f)]
        (is (= (set (rows-of t)) (set (rows-of restored))))
        (is (= (table/lookup t 1) (table/lookup restored 1)))
        (is (= (dissoc (table/info t) :table) (dissoc (table/info restored) :table)))))))

(deftest ^{:spec ["C127"]} a-file-says-what-is-in-it-and-options-say-how-it-is-restored
  (let [f (file)
        t (table/create :ordered-set {:key :id, :name ::scores, :access :private})]
    (table/insert-all t [{:id 2} {:id 1}])
    (is (= 2 (snapshot/save ::scores (str f))))
    (is (= {:kind :ordered-set, :key :id, :access :private, :name ::scores, :rows 2} (snapshot/describe f)))
    (is (= :magnetar/name-taken (first (refused #(snapshot/restore f {:name ::scores})))))
    (table/drop t)
    (snapshot/restore f {:name ::scores, :access :public})
    (is (= [{:id 1} {:id 2}] (rows-of ::scores)))
    (is (= [:public :id] ((juxt :access :key) (table/info ::scores))))))

(defn- bytes-of ^bytes [^File f]
  (Files/readAllBytes (.toPath f)))

(defn- write-bytes [^File f ^bytes bytes]
  (Files/write (.toPath f) bytes ^OpenOption/1 (make-array OpenOption 0)))

(deftest ^{:spec ["C128"]} a-file-that-was-cut-off-anywhere-is-refused
  (let [f (file)]
    (snapshot/save (with-rows :set rows) f)
    (let [whole (bytes-of f)]
      (dotimes [n (alength whole)]
        (write-bytes f (java.util.Arrays/copyOf whole n))
        (let [[reason message] (refused #(snapshot/restore f))]
          (is (= :magnetar/bad-snapshot reason) n)
          (is (str/starts-with? message (str "`restore` refuses " f ": ")))))
      (write-bytes f whole)
      (is (= (set rows) (set (rows-of (snapshot/restore f))))))))

(deftest ^{:spec ["C128"]} a-file-of-which-any-byte-was-changed-is-refused
  (let [f (file)]
    (snapshot/save (with-rows :set rows) f)
    (let [whole (bytes-of f)]
      (dotimes [n (alength whole)]
        (let [changed (aclone whole)]
          (aset changed n (unchecked-byte (bit-xor (aget changed n) (bit-shift-left 1 (rem n 8)))))
          (write-bytes f changed)
          (is (= :magnetar/bad-snapshot (first (refused #(snapshot/restore f)))) n))))))

(deftest ^{:spec ["C128"]} foreign-files-are-refused-in-a-sentence
  (are [text words] (let [f (file)]
                      (spit f text)
                      (let [[reason message] (refused #(snapshot/restore f))]
                        (is (= :magnetar/bad-snapshot reason))
                        (is (str/includes? message words) message)))
    "" "no snapshot of a table"
    "\n" "no snapshot of a table"
    "#=(System/exit 1)\n" "no snapshot of a table"
    "magnetar-table 2 {}\n" "newer version"
    "magnetar-table 1 {}" "its end is missing"
    "magnetar-table 1 {}\nend 0 00\n" "its end is missing")
  (let [missing (io/file (processes/temporary-folder) "nothing")]
    (is (str/includes? (second (refused #(snapshot/restore missing))) "there is no such file")))
  (is (str/includes? (second (refused #(snapshot/restore (processes/temporary-folder)))) "it is no ordinary file"))
  (is (= :magnetar/bad-file (first (refused #(snapshot/restore 7)))))
  (let [folder (processes/temporary-folder)
        t (with-rows :set rows)]
    (is (= :magnetar/bad-file (first (refused #(snapshot/save t folder)))))
    (is (= :magnetar/bad-file (first (refused #(snapshot/save t (io/file folder "none" "x"))))))))

(deftest ^{:spec ["C127"]} a-save-that-fails-leaves-the-old-file-and-nothing-beside-it
  (let [f (file)]
    (snapshot/save (with-rows :set rows) f)
    (let [before (vec (bytes-of f))]
      (doseq [bad [(Object.) inc (->Point 1 2) (symbol "a b") (keyword "") ##NaN "\ud800" #"x" (byte-array 1)]]
        (let [[reason message] (refused #(snapshot/save (with-rows :set (conj rows [:bad bad])) f))]
          (is (= :magnetar/not-data reason) (pr-str bad))
          (is (str/includes? message "Rows in a file are plain data"))))
      (is (= before (vec (bytes-of f))))
      (is (= ["saved.table"] (vec (.list (.getParentFile f))))))))

(deftest ^{:spec ["C128"]} a-file-that-is-replaced-while-it-is-restored-is-the-one-or-the-other
  (let [f (file)
        check @#'format/check
        large (with-rows :set (map vector (range 40)))
        small (with-rows :set [[:one]])]
    (doseq [[before after rows] [[large small (set (map vector (range 40)))] [small large #{[:one]}]]]
      (snapshot/save before f)
      (with-redefs-fn {#'format/check (fn [& args] (let [n (apply check args)] (snapshot/save after f) n))}
        #(is (= rows (set (rows-of (snapshot/restore f)))))))))

(deftest ^{:spec ["C127"]} what-cannot-be-written-is-said-in-a-sentence
  (let [place (io/file (processes/temporary-folder) (str/join (repeat 250 "x")))
        [reason message] (refused #(snapshot/save (with-rows :set rows) place))]
    (is (= :magnetar/not-saved reason))
    (is (str/starts-with? message (str "`save` to " place " could not write there: ")))
    (is (not (str/includes? message ".part")))))

(deftest ^{:spec ["C127"]} whoever-may-read-a-file-may-read-the-one-that-replaces-it
  (let [f (file)
        path (.toPath f)
        allowed #(PosixFilePermissions/toString (Files/getPosixFilePermissions path (make-array LinkOption 0)))
        t (with-rows :set rows)]
    (doseq [permissions ["rw-r--r--" "rw-------" "r--r-----"]]
      (snapshot/save t f)
      (Files/setPosixFilePermissions path (PosixFilePermissions/fromString permissions))
      (snapshot/save t f)
      (is (= permissions (allowed))))
    (is (= ["saved.table"] (vec (.list (.getParentFile f)))))))

(deftest ^{:spec ["C127"]} settings-of-the-printer-do-not-change-the-file
  (let [f (file)]
    (binding [*print-length* 1, *print-level* 1, *print-meta* true, *print-readably* false, *print-namespace-maps* true, *read-eval* false]
      (snapshot/save (with-rows :set (conj rows [:long {:a/b [1 2 3 [4 [5]]]}])) f))
    (is (= [[:long {:a/b [1 2 3 [4 [5]]]}]] (table/lookup (snapshot/restore f) :long)))))

(deftest ^{:spec ["C126"]} only-who-may-read-a-table-saves-it
  (let [t (table/create :set {:access :private})
        f (file)]
    (is (= [:refused] (actor/join (actor/spawn #(try (snapshot/save t f) (catch IllegalStateException _ [:refused]))))))
    (is (not (.exists f)))))
